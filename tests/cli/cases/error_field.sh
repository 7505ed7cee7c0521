"$STOKER" run -e 'range(10) | select(vlaue) | batch(4)'
