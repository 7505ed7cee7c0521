# Files of a sink appear whole or not at all; with a checkpoint, what was written is kept and gone on with.
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --step-time 5ms --checkpoint ck --checkpoint-every 2 &
until test -e ck; do sleep 0.01; done
kill -INT $!
wait $!
echo "exit $?"
ls
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --resume ck
ls out
"$STOKER" inspect out/a.tfrecord | grep records
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --steps 7
"$STOKER" inspect --verify out/a.tfrecord | grep -E 'records|manifest'
"$STOKER" run -q -e 'range(1000) | batch(1) | write_tfrecord("out/a.tfrecord")' --steps 7 --checkpoint ck
ls -A | sed 's/[0-9a-f]\{16\}/DIGITS/'
