# The commands on traces say the same of the same mistakes.
echo '{"traceEvents": []}' >empty.json
for command in top diagnose sql convert merge export; do
    "$STOKER" $command
    echo "$command: exit $?"
done
"$STOKER" diff
"$STOKER" diff - - </dev/null
"$STOKER" diff --before - empty.json,- </dev/null
"$STOKER" top empty.json - - </dev/null
"$STOKER" top empty.json --json --format csv
"$STOKER" diff empty.json empty.json --format xml
"$STOKER" merge empty.json
"$STOKER" merge empty.json -o out.xyz
"$STOKER" merge empty.json -o out.json --to xml
"$STOKER" convert empty.json
echo "exit $?"
