"$STOKER" run --treads 2 -e 'range(10)'
