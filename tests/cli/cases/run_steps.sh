"$STOKER" run -q -e 'range(100) | batch(4) | print' --steps 2
