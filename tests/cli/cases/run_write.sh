# Written, inspected and read again.
"$STOKER" run -q -e 'range(10) | batch(4) | write_tfrecord("out/a.tfrecord")'
echo "exit $?"
"$STOKER" inspect --verify out/*
"$STOKER" run -q -e 'tfrecord("out/*") | parse(value=int64) | batch(4)' --digest >a
"$STOKER" run -q -e 'range(10) | batch(4)' --digest >b
cmp a b && echo same
