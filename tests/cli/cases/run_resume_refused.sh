# A checkpoint of another pipeline is refused with the reason.
"$STOKER" run -q -e 'range(50) | shuffle(seed=3) | batch(8)' --steps 2 --checkpoint ck
"$STOKER" run -q -e 'range(50) | shuffle(seed=4) | batch(8)' --resume ck
