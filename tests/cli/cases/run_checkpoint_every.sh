# A run that is killed leaves the last whole checkpoint, and nothing else.
p='range(100) | batch(1) | print'
"$STOKER" run -q -e "$p" >whole
"$STOKER" run -q -e "$p" --checkpoint ck --checkpoint-every 10 --step-time 5ms >/dev/null &
until test -e ck; do sleep 0.01; done
exec 3>&2 2>/dev/null # bash tells of killed jobs
kill -KILL $!
wait $!
exec 2>&3
ls
"$STOKER" run -q -e "$p" --resume ck >rest
tail -n "$(wc -l <rest)" whole | cmp - rest && echo "the end of the whole run"
test $(($(wc -l <rest) % 10)) = 0 && echo "from a multiple of 10 on"
