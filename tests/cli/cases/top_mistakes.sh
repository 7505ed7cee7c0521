# What is wrong is said with what was wanted.
echo '{"traceEvents": []}' >empty.json
"$STOKER" top
echo "exit $?"
"$STOKER" top empty.json --sort totl
echo "exit $?"
"$STOKER" top empty.json --by color
echo "exit $?"
"$STOKER" top empty.json --from 2s --to 1s
echo "exit $?"
"$STOKER" top empty.json
echo "exit $?"
"$STOKER" top empty.json --format json
echo "exit $?"
"$STOKER" top missing.json
