"$STOKER" run -e 'range(10) | batch(0)'
