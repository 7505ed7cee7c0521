# Text files are known by their names, folders of pictures by being directories.
printf 'one\ntwo words\n\nfour' >a.txt
printf '{"x":1}\n' >b.jsonl
printf 'text in a file that is called otherwise\n' >c.tfrecord
mkdir -p p/cat p/dog empty
touch p/cat/1.jpg p/cat/2.png p/dog/1.jpeg p/dog/notes.txt
"$STOKER" inspect --verify a.txt b.jsonl p
echo "exit $?"
"$STOKER" inspect c.tfrecord
echo "exit $?"
"$STOKER" inspect empty
echo "exit $?"
"$STOKER" inspect --json p | python3 -c 'import json, sys
for x in json.load(sys.stdin): print({key: value for key, value in x.items() if key != "page"})'
"$STOKER" run -q -e "$("$STOKER" inspect --json a.txt | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["text"])') | print"
