# What is wrong is said with what was wanted.
echo '{"traceEvents": []}' >empty.json
echo '[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]' >one.json
"$STOKER" top
echo "exit $?"
"$STOKER" top one.json --sort totl
echo "exit $?"
"$STOKER" top one.json --by color
echo "exit $?"
"$STOKER" top one.json --from 2s --to 1s
echo "exit $?"
"$STOKER" top one.json --join-processes sometimes
echo "exit $?"
"$STOKER" top empty.json
echo "exit $?"
"$STOKER" top empty.json --format json
echo "exit $?"
"$STOKER" top missing.json
