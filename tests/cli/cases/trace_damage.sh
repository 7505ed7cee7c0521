# What cannot be kept is counted, with the place; what is no trace at all is refused.
printf '%s' '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":-2,"name":"a"},
{"ph":"E","pid":1,"tid":1,"ts":5},
{"ph":"X","pid":1,"tid":1,"name":"no time"},
{"ph":"?","pid":1,"tid":1,"ts":5,"name":"b"},
{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1 "name":"broken"},
{"ph":"X","pid":1,"tid":1,"ts":9,"dur":2,"name":"good"}]' >damaged.json
"$STOKER" top damaged.json --format csv 2>&1
"$STOKER" sql damaged.json --quiet --format csv -q 'SELECT reason, count, offset, lost FROM note ORDER BY offset'
gzip -nc damaged.json | head -c -8 >cut.json.gz
"$STOKER" top cut.json.gz --format csv 2>&1
: >empty.json
"$STOKER" top empty.json 2>&1
echo "exit $?"
printf '\211PNG\r\n\032\n' >picture.png
"$STOKER" top picture.png 2>&1
echo "exit $?"
"$STOKER" top . 2>&1
echo "exit $?"
"$STOKER" top damaged.json --read-as nonsense 2>&1
echo "exit $?"
"$STOKER" top - - 2>&1
