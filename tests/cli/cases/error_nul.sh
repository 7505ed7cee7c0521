printf 'range(10)\0| batch(4)' >p.stoker
"$STOKER" run p.stoker
