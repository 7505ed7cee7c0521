# --exact is refused where it changes which samples come.
P='range(40) | filter("value % 3 == 0") | shard(2, 0) | batch(3)'
"$STOKER" run -q -e "$P" --steps 1 --checkpoint ck
"$STOKER" run -q -e "$P" --resume ck --exact
