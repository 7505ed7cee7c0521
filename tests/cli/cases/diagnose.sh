# A verdict from PyTorch's markers, for people and for programs; and why there is none.
{
    echo '{"traceEvents":['
    for step in 0 1 2 3 4 5; do
        start=$((step * 1000))
        echo "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#$step\",\"pid\":1,\"tid\":1,\"ts\":$start,\"dur\":1000},"
        echo "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__\",\"pid\":1,\"tid\":1,\"ts\":$start,\"dur\":300},"
        echo "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":$((start + 300)),\"dur\":700,\"args\":{\"stream\":7}},"
    done
    echo '{}]}'
} >run.json
"$STOKER" diagnose run.json
"$STOKER" diagnose run.json --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
print({k: d[k] for k in ("input_percent", "verdict", "steps", "steps_from")}, sorted(d))'
echo '[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":5,"name":"once"}]' >once.json
"$STOKER" diagnose once.json
