"$STOKER" run -q -e 'range(100000) | batch(100) | print' >/dev/full
