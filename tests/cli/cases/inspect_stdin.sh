"$STOKER" inspect - <"$TESTDATA/tf/example.tfrecord.gz" | head -3
