# The suggested call reads the file.
cd "$TESTDATA/tf"
for file in example.tfrecord example.tfrecord.gz sequence.tfrecord; do
    call=$("$STOKER" inspect --json $file | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["parse"])')
    "$STOKER" run -q -e "tfrecord(\"$file\") | $call | batch(8)" --json --no-index-cache |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'
done
