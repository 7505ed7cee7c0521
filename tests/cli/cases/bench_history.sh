# Change points of a log: told, drawn, as JSON, as a gate; rows and benchmarks chosen; logs of other programs.
try() {
    printf -- '--- %s\n' "$*"
    "$STOKER" bench "$@" 2>&1
    echo "exit $?"
}
cp "$TESTDATA/history/PERF.csv" .
try history PERF.csv --svg history.svg
# The picture of the guide is what the program draws.
cmp history.svg "$TESTDATA/../../docs/img/history.svg" && echo "the picture of the guide"
"$STOKER" bench history PERF.csv --json | python3 -c '
import json, sys
history = json.load(sys.stdin)
print(len(history["rows"]), "rows")
for c in history["changes"]:
    print(c["benchmark"], c["commit"][:7], c["from_commit"][:7], c["to_commit"][:7], c["time"], c["direction"], c["worse"],
          c["newest"], *["%.3f" % c[key] for key in ("ratio", "low", "high")], c["p"] < 0.001)'
try history PERF.csv -b throughput -b peak --last 3
try history PERF.csv -b decode --since 2026-10-01 --min-effect 30%
# peak is the one that got worse last; since its commit is taken for granted, nothing did.
try history PERF.csv -b peak --last 2 --fail-over 3%
try history PERF.csv -b peak --last 40 --fail-over 5%
try history PERF.csv -b peak --last 40 --fail-over 3% --json | tail -n 2
try history PERF.csv -b decode --last 40 --fail-over 3%
try history PERF.csv -b peak --since 606c45a --last 2 --fail-over 3%
printf 'time;commit;parse_ms;note\n' >other.csv
for i in 1 2 3 4 5 6 7 8; do printf '2026-01-0%d;v1.%d;%d;x\n' $i $i $((i < 5 ? 100 + i % 2 : 120 + i % 2)); done >>other.csv
try history other.csv
# Rows of another machine are another series.
printf 'time,host,parse_ms\n' >machines.csv
for i in 1 2 3 4 5 6 7 8; do printf '2026-01-0%d,%s,%d\n' $i $((i < 5)) $((i < 5 ? 100 + i % 2 : 120 + i % 2)); done >>machines.csv
try history machines.csv
try history PERF.csv -b nothing
try history PERF.csv --since never
try history PERF.csv --since 2027-01-01
try history PERF.csv --last 0
printf 'time,x\ntoday,1\n' >bad.csv
try history bad.csv
try history missing.csv
