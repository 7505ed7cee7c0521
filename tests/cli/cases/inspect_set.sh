# A set is looked at by its manifest.
"$STOKER" run -q -e 'range(10) | write_tfrecord("out/part-%d", shards=3)'
"$STOKER" inspect out/part.manifest.json
"$STOKER" inspect --verify out/part.manifest.json
echo "exit $?"
printf x | dd of=out/part-1 bs=1 seek=20 conv=notrunc 2>/dev/null
rm out/part-2
"$STOKER" inspect --verify out/part.manifest.json
echo "exit $?"
"$STOKER" inspect --json --verify out/part.manifest.json
"$STOKER" run -q -e 'tfrecord("out/part-*") | batch(4)'
echo "exit $?"
cp out/part-0 out/part-2
"$STOKER" run -q -e 'tfrecord("out/part-*") | batch(4)'
echo "exit $?"
"$STOKER" inspect --verify 'out/part-*' | tail -1
