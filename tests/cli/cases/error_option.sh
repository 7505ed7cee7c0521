"$STOKER" run -e 'range(10) | shuffle(sed=1)'
