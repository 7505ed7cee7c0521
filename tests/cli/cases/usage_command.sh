"$STOKER" isnpect x
