"$STOKER" run -q -e 'range(10) | batch(4) | print'
