# Ctrl-C ends cleanly: exit code 130, and a checkpoint from which the rest of the run follows.
p='range(1000) | batch(1) | print'
"$STOKER" run -q -e "$p" >whole
for signal in INT TERM; do
    rm -f ck
    "$STOKER" run -q -e "$p" --step-time 5ms --checkpoint ck --checkpoint-every 5 >first &
    until test -e ck; do sleep 0.01; done
    kill -$signal $!
    wait $!
    echo "$signal: exit $?"
    "$STOKER" run -q -e "$p" --resume ck | cat first - | cmp - whole && echo whole
done
