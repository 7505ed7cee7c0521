# Says how clocks were aligned and what was written, as convert does; flows are counted by their points everywhere.
cat >a.json <<'END'
[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":10,"args":{"x":1}},
{"ph":"s","id":1,"name":"f","cat":"c","pid":1,"tid":1,"ts":1},
{"ph":"X","name":"b","pid":1,"tid":1,"ts":20,"dur":10},
{"ph":"f","id":1,"name":"f","cat":"c","bp":"e","pid":1,"tid":1,"ts":25}]
END
for format in chrome perfetto collapsed speedscope sqlite; do
    "$STOKER" convert a.json --to $format -o out.$format
done
"$STOKER" merge a.json --to collapsed -o out
cat out
"$STOKER" merge -q a.json -o out.json.gz
"$STOKER" merge a.json -o out.pftrace --json
