"$STOKER" run -q -e 'range(50) | batch(8)' --resume missing
echo "exit $?"
echo 'no checkpoint' >ck
"$STOKER" run -q -e 'range(50) | batch(8)' --resume ck
echo "exit $?"
