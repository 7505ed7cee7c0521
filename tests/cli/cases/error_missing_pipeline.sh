"$STOKER" run nowhere.stoker
