cd "$TESTDATA/tf"
"$STOKER" inspect --json sequence.tfrecord
