cd "$TESTDATA/tf"
"$STOKER" inspect --verify '*.tfrecord' example.tfrecord.gz example.tfrecord.zlib
