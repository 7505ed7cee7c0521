cd "$TESTDATA/tf"
"$STOKER" inspect nowhere.tfrecord 'no/*.tfrecord' unusual.tfrecord | head -2
echo "exit ${PIPESTATUS[0]}"
