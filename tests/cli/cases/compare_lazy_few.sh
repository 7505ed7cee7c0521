# The limit is kept, a cache, a sink and repeats of the pipeline are replaced.
p='range(1000) | take(600) | cache(memory=1M) | batch(32, drop_last=true) | repeat(2) | repeat(3) | print'
"$STOKER" compare-lazy -q -e "$p" --limit 100 --rounds 1 --json >out
python3 -c 'import json; x = json.load(open("out")); print(x["samples"]); print(x["ways"][0]["pipeline"] + x["ways"][2]["pipeline"], end="")'
