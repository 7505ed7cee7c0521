"$STOKER" completion tcsh
