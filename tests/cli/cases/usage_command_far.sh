"$STOKER" bake
