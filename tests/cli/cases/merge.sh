# Two ranks with clocks 5 s apart, joined by their collectives.
rank() { # RANK OFFSET-US
    echo "{\"distributedInfo\":{\"rank\":$1},\"traceEvents\":["
    for i in $(seq 0 19); do
        start=$((i * 1000 + i * i % 17 * 13 + $2))
        echo "{\"ph\":\"X\",\"name\":\"forward\",\"cat\":\"op\",\"pid\":1,\"tid\":1,\"ts\":$((start - 400)),\"dur\":300},"
        echo "{\"ph\":\"X\",\"name\":\"ncclDevKernel_AllReduce\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":$start,\"dur\":100},"
    done
    echo '{}]}'
}
rank 0 1000 >rank0.json
rank 1 5001000 >rank1.json
"$STOKER" merge rank0.json rank1.json -o all.json 2>&1
"$STOKER" sql all.json --format csv -q "SELECT name, count(*), count(DISTINCT upid) AS processes FROM slice GROUP BY name"
"$STOKER" sql all.json --format csv -q "SELECT count(DISTINCT ts) FROM slice WHERE name = 'ncclDevKernel_AllReduce'"
"$STOKER" merge rank0.json rank0.json -o twice.json 2>&1
echo "exit $?"
ls twice.json
