# Files that people have and that are not read are named, with what to do about them.
try() { # NAME, bytes on standard input
    cat >"$1"
    "$STOKER" top "$1" 2>&1 >/dev/null
    [ $? = 1 ] || echo "exit $?, wanted 1"
}
printf 'PERFILE2h\0\0\0' | try perf.data
printf 'NVIDIA Tegra Profiler Report 1.\012\013Local (CLI)' | try report1.nsys-rep
printf 'H\350\357\221\347\227\373\235\364\030\012\004\010\001\020\002\012\004\010\003\020\004P\236\244\335wZ\004\010\003\020\004' | gzip -n | try cpu.pprof
printf 'FLR\0\0\002\0\001' | try x.jfr
printf 'memray\0\015\0\0\0' | try x.bin
printf '\004"M\030@@\3006\0\0\372\004memray\0\015\0\0\0' | try packed.bin
printf 'MOJ\004' | try x.mojo
printf 'tracy\0\013\001' | try x.tracy
printf 'go 1.26 trace\0\0\0' | try go.trace
{ head -c 257 /dev/zero | tr '\0' a; printf 'ustar\0'; } | gzip -n | try x.tar.gz
printf 'PK\003\004' | try x.zip
printf 'PK\003\004\024\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\015\0\0\0archive/data.pkl' | try model.pt
printf '\030\0\0\0\0\0\0\0\243\177\113\042\011\0\0\0\0\0\0\0\001\032\015brain.Event:2' | try events.out.tfevents.1
printf '\211HDF\015\012\032\012' | try x.h5
printf 'PAR1\025' | try x.parquet
printf '\377\376[\0{\0' | try utf16.json
printf '{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}],"samples":[],"timeDeltas":[]}' | try x.cpuprofile
printf '{"rocprofiler-sdk-tool":[{"metadata":{}}]}' | try results.json
printf '"Kind","Agent_Id","Queue_Id"\n"KERNEL_DISPATCH",1,1\n' | try kernel_trace.csv
printf '{"schema":"1.0.2-chakra.0.0.4","pid":1,"nodes":[{"id":1,"name":"a"}]}' | try et.json
printf '{"alloc_samples":0,"args":[],"combined_stacks":[]}' | try scalene.json
printf '# tracer: nop\n#\n   foo-12  ( 12) [000] d..3 1234.6: sched_wakeup: comm=x\n' | try systrace.txt
printf '<!DOCTYPE html><html></html>' | try page.html
echo '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"a"}]' >good.json
"$STOKER" convert -q good.json -o good.ndjson
"$STOKER" convert -q good.json -o good.csv
"$STOKER" top good.ndjson 2>&1
"$STOKER" top good.csv 2>&1
echo "text that ends in numbers is not a profile, unless it is said to be one"
printf 'Epoch 1 loss 0.5\nEpoch 2 loss 0.4\n' | try log.txt
"$STOKER" top log.txt --read-as collapsed 2>/dev/null | tail -n 1
echo "a trace that speaks of them is a trace"
echo '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"a","args":{"nodes":1,"callFrame":2,"functionName":3}}]' >odd.json
"$STOKER" top odd.json | tail -n 1
