# Four ways, counted figures only: what is random, what is stored, and that nothing is left behind.
plugin=$(dirname "$STOKER")/../examples/op_negate.so
p='range(3000) | shuffle(seed=1) | cast(value=float32) | add_noise(value) | batch(100) | repeat'
export TMPDIR=$PWD/tmp
mkdir tmp
"$STOKER" compare-lazy -q --plugin "$plugin" -e "$p" --rounds 2 --epochs 4 --step-time 1us --json >out
python3 - <<END
import json
x = json.load(open("out"))
print(x["samples"], x["batch_rows"], x["epochs"], x["rounds"], len(x["ways"]))
for way in x["ways"]:
    print(way["name"], way["checked_samples"], way["distinct_min"], way["distinct_max"], way["disk_bytes"] > 0,
          way["cache_hits"] > 0)
    print(way["pipeline"].replace(x["ways"][3]["pipeline"].split('"')[1], "PATH"))
END
ls tmp
