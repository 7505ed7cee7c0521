"$STOKER" run -e ''
