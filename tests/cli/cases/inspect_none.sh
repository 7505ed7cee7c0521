"$STOKER" inspect
