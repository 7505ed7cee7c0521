for i in 8 9 10; do printf "line %s\n" $i > "part-$i.txt"; done
"$STOKER" run -q -e 'text("part-{8..10}.txt") | print'
"$STOKER" run -q -e 'text("part-{10..11}.txt") | print'
"$STOKER" run -e 'webdataset("gs://bucket/{000..099}.tar", image=bytes) | batch(4)'
