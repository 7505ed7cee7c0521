"$STOKER" ops shufle
