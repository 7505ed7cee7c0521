# A file of which nothing can be used is an error for every command, and no output appears.
printf '{' >brace.json
printf '[' >bracket.json
echo '[]' >none.json
echo '{"traceEvents":[]}' >object.json
echo '[{"a":1},{"b":2}]' >list.json
echo '[{"ph":"M","pid":1,"name":"process_name","args":{"name":"p"}}]' >names.json
echo '[{"ph":"E","pid":1,"tid":1,"ts":5}]' >ends.json
printf '\012\015\010\001\022\011/host:CPU' >cut.xplane.pb
echo '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"a"}]' >good.json
echo '[{"ph":"C","pid":1,"ts":1,"name":"c","args":{"v":1}}]' >counter.json
for file in brace.json bracket.json none.json object.json list.json names.json ends.json cut.xplane.pb counter.json; do
    "$STOKER" top "$file" 2>&1
    echo "exit $?"
done
"$STOKER" diagnose list.json 2>&1
echo "exit $?"
"$STOKER" sql list.json -q 'SELECT 1' 2>&1
echo "exit $?"
"$STOKER" convert list.json -o out.json 2>&1
echo "exit $?"
"$STOKER" merge list.json none.json -o out.json 2>&1
echo "exit $?"
"$STOKER" export list.json --to csv out 2>&1
echo "exit $?"
ls
echo "one of several is only named"
"$STOKER" top list.json good.json --format csv 2>&1 | cut -d, -f1,3
