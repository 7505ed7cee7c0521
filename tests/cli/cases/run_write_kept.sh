# What cannot be gone on with is refused at the start.
"$STOKER" run -q -e 'range(9) | write_hdf5("a.h5")' --checkpoint ck
echo "exit $?"
"$STOKER" run -q -e 'range(9) | write_tfrecord("a.gz", compression=gzip)' --checkpoint ck
echo "exit $?"
"$STOKER" run -q -e 'range(9) | batch(2) | write_tfrecord("out/part-%d", shards=2)' --checkpoint ck --steps 2
rm -r .out.*
"$STOKER" run -q -e 'range(9) | batch(2) | write_tfrecord("out/part-%d", shards=2)' --resume ck
echo "exit $?"
"$STOKER" run -q -e 'range(9) | write_tfrecord("out/part-*")'
echo "exit $?"
