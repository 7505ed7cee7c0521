# What is in an HDF5 file: for people, for programs, and checked. Sizes depend on the compressor, the version on the machine.
"$STOKER" run -q -e 'range(1000) | write_hdf5("a.h5", chunk=100, gzip=4, shuffle=true)'
plain() { sed -E 's/libhdf5 [0-9.]+/libhdf5 X/g; s/[0-9.]+ (KiB|B)/N \1/g; s/ratio [0-9.]+/ratio N/g; s/"(size|stored)_bytes":[0-9]+/"\1_bytes":0/g'; }
"$STOKER" inspect a.h5 | plain
echo ----
"$STOKER" inspect --verify a.h5 | plain | tail -4
echo ----
"$STOKER" inspect --json a.h5 | plain
echo ----
"$STOKER" run -e 'hdf5("a.h5", x="/valu") | batch(10)'
"$STOKER" run -e 'hdf5("nothing.h5", x="/value") | batch(10)'
echo "no HDF5" > no.h5
"$STOKER" run -e 'hdf5("no.h5", x="/value") | batch(10)'
"$STOKER" run -e 'hdf5("a.h5", x=value) | batch(10)'
"$STOKER" plan -e 'hdf5("a.h5", x="/value") | shuffle(seed=1, window=2) | batch(10)'
