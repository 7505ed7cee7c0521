"$STOKER" run -e 'tfrecord("nowhere/a.tfrecord") | batch(4)'
