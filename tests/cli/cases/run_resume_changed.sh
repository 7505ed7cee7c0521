# A checkpoint is refused when the files are no longer the same.
"$STOKER" run -q -e 'range(40) | batch(4) | write_tfrecord("d.tfrecord")'
"$STOKER" run -q -e 'tfrecord("d.tfrecord") | batch(4)' --steps 2 --checkpoint ck
"$STOKER" run -q -e 'range(41) | batch(4) | write_tfrecord("d.tfrecord")'
"$STOKER" run -q -e 'tfrecord("d.tfrecord") | batch(4)' --resume ck
