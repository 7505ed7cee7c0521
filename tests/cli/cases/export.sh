# Tables for other engines, with what loads them written beside.
echo '[{"ph":"X","pid":1,"tid":1,"ts":1.5,"dur":2,"name":"a","args":{"big":9007199254740993}},{"ph":"X","pid":1,"tid":1,"ts":9,"dur":2,"name":"b"}]' >run.json
for to in bigquery clickhouse spark sqlite csv; do
    "$STOKER" export run.json --to $to $to --quiet >/dev/null 2>&1
    echo "$to: exit $?"
    (cd $to && find . -type f | LC_ALL=C sort)
done
cat bigquery/*.ndjson
"$STOKER" export run.json --to csv csv 2>&1
echo "exit $?"
"$STOKER" export run.json --to oracle out 2>&1
