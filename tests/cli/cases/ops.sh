"$STOKER" ops
