"$STOKER" run -e 'tfrecord("nowhere/*.tfrecord") | batch(4)'
