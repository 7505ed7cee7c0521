# Wrong values of options, each said with what was found and wanted.
try() {
    "$STOKER" run "$@" -e 'range(10)'
    echo "exit $?"
}
try --threads many
try --threads -1
try --memory lots
try --memory 0
try --step-time soon
try --steps 0
try --digest=yes
try --on-error ignore
try --on-error quarantine=
try --max-errors 3
try --checkpoint-every 5
try --rank 1
try --rank 2 --world 2
try --cache-dir x --no-index-cache
"$STOKER" run --steps
echo "exit $?"
"$STOKER" run -x
echo "exit $?"
"$STOKER" run one two
echo "exit $?"
"$STOKER" run
echo "exit $?"
"$STOKER" run file -e 'range(10)'
echo "exit $?"
