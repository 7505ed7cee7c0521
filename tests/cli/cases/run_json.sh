# The keys that programs rely on, with their values where these are known.
"$STOKER" run -q -e 'range(10) | batch(4)' --json --digest --threads 2 --checkpoint ck >out
python3 - <<END
import json
x = json.load(open("out"))
for key in "samples batches skipped quarantined dropped lost_bytes threads end".split():
    print(key, x[key])
for key in "seconds samples_per_s bytes_read consumer_wait_s peak_buffer_bytes first_batch_s open_s".split():
    print(key, x[key] >= 0)
print(len(x["digest"]), x["checkpoint"], x["peak_buffer_bytes"] <= x["budget_bytes"])
print(all(op["busy_s"] >= 0 and op["samples"] >= 0 for op in x["ops"]), x["ops"][0]["name"])
END
