# Another rank's checkpoint is refused where ranks go at different paces.
P='range(1000) | shard | filter("value % 3 == 0 or value < 100") | batch(7)'
"$STOKER" run -q -e "$P" --rank 0 --world 2 --steps 5 --checkpoint ck
"$STOKER" run -q -e "$P" --rank 1 --world 2 --resume ck
