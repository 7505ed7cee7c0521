# Files of a sink appear whole or not at all.
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --step-time 5ms --checkpoint ck --checkpoint-every 2 &
until test -e ck; do sleep 0.01; done
kill -INT $!
wait $!
echo "exit $?"
find out -type f
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --steps 7
"$STOKER" inspect out/a.tfrecord | grep records
