# A checkpoint of an older version says so.
printf 'stoker-checkpoint 1\nworld 1\ncheck 0000000000000000\n' > ck
"$STOKER" run -q -e 'range(4)' --resume ck
