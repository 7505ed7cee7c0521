# Questions in SQL: as a table, CSV and JSON, from standard input, and what is said of mistakes.
cat >run.json <<'END'
[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":10,"name":"a, \"quoted\"","cat":"io","args":{"bytes":4096}},
{"ph":"X","pid":1,"tid":1,"ts":2,"dur":3,"name":"b"},
{"ph":"X","pid":1,"tid":2,"ts":1,"dur":5,"name":"b"},
{"ph":"C","pid":1,"ts":4,"name":"queue","args":{"value":2.5}}]
END
"$STOKER" sql run.json -q 'SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20'
"$STOKER" sql run.json --format csv -q "SELECT name, extract_arg(arg_set_id, 'bytes') AS bytes, depth FROM slice ORDER BY id"
"$STOKER" sql run.json --format json -q 'SELECT name, ts, value FROM counter' -q 'SELECT tid, count(*) AS n FROM slice GROUP BY tid'
echo "SELECT * FROM overlap('a*', 'b');" | "$STOKER" sql run.json
"$STOKER" sql run.json -q 'SELECT nme FROM slice'
echo "exit $?"
"$STOKER" sql run.json -q 'SELECT * FROM slicees'
echo "exit $?"
"$STOKER" sql run.json -q "ATTACH 'other.db' AS o"
echo "exit $?"
"$STOKER" sql run.json -q "DELETE FROM slice"
