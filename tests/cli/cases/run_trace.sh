# Both kinds of traces; the steps that are played are in them.
"$STOKER" run -q -e 'range(40) | batch(4)' --step-time 1ms --trace t.json
"$STOKER" run -q -e 'range(40) | batch(4)' --step-time 1ms --trace t.json.gz
"$STOKER" run -q -e 'range(40) | batch(4)' --step-time 1ms --trace t.pftrace
python3 - <<END
import gzip, json
for load in (open("t.json").read(), gzip.open("t.json.gz", "rt").read()):
    x = json.loads(load)
    events = x["traceEvents"] if isinstance(x, dict) else x
    print(sum("step" in str(e.get("name", "")) and e.get("ph") in ("X", "B") for e in events))
print(open("t.pftrace", "rb").read().count(b"step") > 0)
END
