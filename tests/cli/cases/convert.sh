# One format to another, and a file that was cut off made whole again.
printf '%s' '{"schemaVersion":1,"traceEvents":[
{"ph":"X","pid":1,"tid":1,"ts":1.5,"dur":10,"name":"step","args":{"loss":NaN,"note":"\ud83d\ude00"}},
{"ph":"B","pid":1,"tid":"stream 7","ts":2,"name":"kernel"},
{"ph":"X","pid":1,"tid":1,"ts":5,"dur":3,"na' >cut.json
"$STOKER" convert cut.json -o mended.json --repair 2>&1
cat mended.json
python3 -c 'import json; print(len(json.load(open("mended.json"))["traceEvents"]), "events, valid JSON")'
"$STOKER" convert mended.json -o run.pftrace 2>&1
"$STOKER" convert run.pftrace --to collapsed -o - 2>&1
"$STOKER" convert run.pftrace --to csv -o - 2>&1
"$STOKER" convert mended.json -o mended.json 2>&1
echo "exit $?"
"$STOKER" convert mended.json -o run.docx 2>&1
echo "exit $?"
"$STOKER" convert mended.json 2>&1
echo "exit $?"
"$STOKER" convert mended.json -o /dev/full --to chrome 2>&1
