cd "$TESTDATA/tf"
"$STOKER" inspect example.tfrecord --records 1 --limit 2
