# A run that is killed leaves the last whole checkpoint.
p='range(100) | batch(1) | print'
"$STOKER" run -q -e "$p" >whole
"$STOKER" run -q -e "$p" --steps 25 --checkpoint ck --checkpoint-every 10 --step-time 1ms >first
"$STOKER" run -q -e "$p" --resume ck | cat first - | cmp - whole && echo same
ls
