# Timelines of TensorFlow 1 are of one process; ops that they call unknown get the name in their args.
timeline() { # TIME-US
    echo '{"traceEvents":['
    echo '{"name":"process_name","ph":"M","pid":1,"args":{"name":"/job:localhost/replica:0/task:0/device:CPU:0 Compute"}},'
    echo '{"name":"process_name","ph":"M","pid":2,"args":{"name":"/job:localhost/replica:0/task:0/device:CPU:0 Tensors"}},'
    echo "{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"unknown\",\"pid\":1,\"tid\":0,\"ts\":$1,\"dur\":30,\"args\":{\"name\":\"get:IteratorGetNext\",\"op\":\"unknown\"}},"
    echo "{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"MatMul\",\"pid\":1,\"tid\":1,\"ts\":$(($1 + 40)),\"dur\":20,\"args\":{\"name\":\"m\",\"op\":\"MatMul\"}},"
    echo "{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"unknown\",\"pid\":1,\"tid\":1,\"ts\":$(($1 + 70)),\"dur\":5,\"args\":{\"op\":\"unknown\"}},"
    echo "{\"ph\":\"N\",\"cat\":\"Tensor\",\"name\":\"Tensor\",\"id\":0,\"pid\":2,\"tid\":0,\"ts\":$1,\"args\":{}},"
    echo "{\"ph\":\"C\",\"cat\":\"Memory\",\"name\":\"Memory\",\"pid\":2,\"ts\":$1,\"args\":{\"cpu\":1000}}]}"
}
timeline 1584128411446459 >t0.json
timeline 1584128412446459 >t1.json
timeline 1584128411946459 >t2.json
count='SELECT (SELECT count(*) FROM process) AS processes, (SELECT count(*) FROM thread) AS threads,
 (SELECT count(*) FROM slice) AS slices, (SELECT count(*) FROM slice WHERE depth > 0) AS nested'
"$STOKER" top t0.json t1.json t2.json --format csv 2>&1 | cut -d, -f1-4
"$STOKER" sql --quiet --format csv t0.json t1.json t2.json -q "$count" -q "SELECT key, value, count(*) FROM fact GROUP BY 1, 2" \
    -q 'SELECT count(DISTINCT file_id) AS files FROM track WHERE upid = 0'
"$STOKER" sql --quiet --format csv t0.json t1.json t2.json --join-processes never -q "$count"
"$STOKER" merge t0.json t1.json t2.json -o all.json 2>&1
for out in all.json all.pftrace all.sqlite; do
    [ $out = all.json ] || "$STOKER" convert -q t0.json t1.json t2.json -o $out
    [ $out = all.sqlite ] || "$STOKER" sql --quiet --format csv $out -q "$count"
done
"$STOKER" sql --quiet --format csv all.json -q "SELECT value FROM fact WHERE key = 'timeline'"
"$STOKER" convert -q t0.json -o again.json
"$STOKER" sql --quiet --format csv again.json -q "SELECT value FROM fact WHERE key = 'timeline'"
echo "other files are joined when it is asked for; what overlaps stays whole"
for i in 1 2; do
    echo '[{"ph":"M","name":"process_name","pid":7,"args":{"name":"p"}},
{"ph":"X","pid":7,"tid":7,"ts":'$((i * 5))',"dur":10,"name":"a"},
{"ph":"b","cat":"c","id":"1","pid":7,"ts":'$i',"name":"b"},{"ph":"e","cat":"c","id":"1","pid":7,"ts":'$((i * 10))',"name":"b"}]' >o$i.json
done
"$STOKER" sql --format csv o1.json o2.json -q "$count"
"$STOKER" sql --format csv o1.json o2.json --join-processes always -q "$count"
for out in o.json o.pftrace; do
    "$STOKER" convert -q o1.json o2.json --join-processes always -o $out
    "$STOKER" sql --format csv $out -q "$count" -q 'SELECT name, ts, dur FROM slice ORDER BY 1, 2'
done
