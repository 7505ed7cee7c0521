# What the recorder lost, and what it only added up, is told below the table; on standard error beside data.
cat >t.json <<'END'
[{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker 0"}},
{"ph":"X","name":"unit","cat":"work","pid":1,"tid":2,"ts":0,"dur":100},
{"ph":"X","name":"parse","cat":"op","pid":1,"tid":2,"ts":0,"dur":60},
{"ph":"X","name":"batch","cat":"op","pid":1,"tid":2,"ts":60,"dur":30},
{"ph":"M","name":"stoker_total","pid":1,"tid":2,"args":{"track":"worker 0","name":"unit","count":4,"total_ns":400000,"lost":3}},
{"ph":"M","name":"stoker_total","pid":1,"tid":2,"args":{"track":"worker 0","name":"parse","count":9,"total_ns":63000,"lost":2}},
{"ph":"M","name":"stoker_total","pid":1,"tid":2,"args":{"track":"worker 0","name":"batch","count":1,"total_ns":30000,"lost":0}},
{"ph":"M","name":"stoker_total","pid":1,"tid":2,"args":{"track":"worker 0","name":"buffer bytes","count":7,"total_ns":0,"lost":0}}]
END
"$STOKER" top -q t.json
echo ----
"$STOKER" top -q t.json --like 'par*'
echo ----
"$STOKER" top t.json --json --limit 1 >rows.json
python3 -c 'import json; print([r["name"] for r in json.load(open("rows.json"))])'
"$STOKER" top -q t.json --like 'zzz*' --format csv
echo "exit $?"
