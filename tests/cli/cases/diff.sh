# Two traces: what got slower; past --fail-over the exit code says it.
trace() { # SCALE of "decode", in percent
    echo '{"traceEvents":['
    for step in $(seq 0 39); do
        start=$((step * 10000)) decode=$((3000 * $1 / 100 + step % 7 * 10))
        echo "{\"ph\":\"X\",\"name\":\"ProfilerStep#$step\",\"cat\":\"user_annotation\",\"pid\":1,\"tid\":1,\"ts\":$start,\"dur\":$((5000 + decode + step % 5))},"
        echo "{\"ph\":\"X\",\"name\":\"decode\",\"cat\":\"op\",\"pid\":1,\"tid\":1,\"ts\":$start,\"dur\":$decode},"
        echo "{\"ph\":\"X\",\"name\":\"train\",\"cat\":\"op\",\"pid\":1,\"tid\":1,\"ts\":$((start + decode)),\"dur\":$((5000 + step % 5))},"
    done
    echo '{}]}'
}
trace 100 >before.json
trace 150 >after.json
"$STOKER" diff before.json after.json --fail-over 5%
echo "exit $?"
"$STOKER" diff after.json before.json --fail-over 5% >/dev/null
echo "exit $?"
"$STOKER" diff before.json 2>&1
echo "exit $?"
# Ten times as often, each call a bit faster: what costs more is not called faster.
calls() { # COUNT in each step, DURATION
    echo '['
    for step in $(seq 0 9); do
        echo "{\"ph\":\"X\",\"name\":\"ProfilerStep#$step\",\"pid\":1,\"tid\":1,\"ts\":$((step * 1000)),\"dur\":1000},"
        for call in $(seq 1 "$1"); do
            echo "{\"ph\":\"X\",\"name\":\"copy\",\"pid\":1,\"tid\":1,\"ts\":$((step * 1000 + call * 20)),\"dur\":$(($2 + call % 2))},"
        done
    done
    echo '{}]'
}
calls 4 13 >few.json
calls 40 11 >many.json
"$STOKER" diff --quiet few.json many.json --by category --format csv | head -1
"$STOKER" diff --quiet few.json many.json | grep -A2 '^by name'
"$STOKER" diff --quiet many.json few.json | grep -A2 '^by name'
