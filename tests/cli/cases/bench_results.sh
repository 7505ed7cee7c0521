# Results that were measured before: compared, converted, gated. What is no result is refused with a reason.
try() {
    printf -- '--- %s\n' "$*"
    "$STOKER" bench "$@" 2>&1
    echo "exit $?"
}
try compare
try compare missing.json
echo 'hello' >words.txt
try compare words.txt
echo '{"results": [{"command": "x", "times": [1, "two"]}]}' >wrong.json
try compare wrong.json
echo '{"results": []}' >none.json
try compare none.json
try compare --read-as xml words.txt
try compare --section x words.txt
cat >runs.json <<'END'
{"results": [
 {"command": "old", "mean": 1, "stddev": 0.1, "median": 1, "user": 0.5, "system": 0.1, "min": 1, "max": 1,
  "times": [1.00, 1.02, 0.99, 1.01, 1.03, 0.98, 1.00, 1.01]},
 {"command": "new\u001b[31m|", "mean": 1, "stddev": 0.1, "median": 1, "user": 0.5, "system": 0.1, "min": 1, "max": 1,
  "times": [1.20, 1.22, 1.19, 1.21, 1.23, 1.18, 1.20, 1.21]}]}
END
try compare runs.json
try compare --fail-over 5% runs.json
try compare --fail-over 50% runs.json
gzip -k runs.json
"$STOKER" bench compare runs.json.gz --json >gz.json
"$STOKER" bench compare runs.json --json >plain.json
cmp gz.json plain.json && echo 'gzipped: same'
try convert
try convert runs.json
try convert --to xml runs.json
try convert --to go runs.json
try convert --to go words.txt
try history
try history notes.txt
printf '| a | b |\n|---|---|\n| 1 | 2 |\n' >PERF.md
try history
try history --json PERF.md
