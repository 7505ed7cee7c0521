# A memory snapshot of PyTorch: counters, what held memory at the peak, what allocated it; and pickles that are none.
python3 - <<'END'
import os, pickle
def frames(*names):
    return [{"name": n, "filename": "train.py", "line": i + 1} for i, n in enumerate(names)]
def entry(action, addr, size, us, stack=()):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1700000000000000 + us, "frames": list(stack)}
model, batch = frames("__init__", "build", "main"), frames("forward", "step", "main")
trace = [
    entry("segment_alloc", 4096, 1 << 21, 0, model),
    entry("alloc", 4096, 1 << 20, 1, model),
    entry("alloc", 4096 + (1 << 20), 600000, 100, batch),
    entry("free_requested", 4096 + (1 << 20), 600000, 150),
    entry("free_completed", 4096 + (1 << 20), 600000, 150),
    entry("alloc", 4096 + (1 << 20), 500000, 200, batch),
    {"action": "oom", "device_free": 1000, "size": 1 << 40, "stream": 0, "time_us": 1700000000000250, "frames": batch},
    entry("free_completed", 4096 + (1 << 20), 500000, 300),
]
blocks = [{"address": 4096, "size": 1 << 20, "requested_size": 1 << 20, "state": "active_allocated", "frames": model},
          {"address": 4096 + (1 << 20), "size": 1 << 20, "requested_size": 500000, "state": "inactive", "frames": []}]
segment = {"device": 0, "address": 4096, "total_size": 1 << 21, "stream": 0, "segment_pool_id": (0, 0), "frames": [],
           "blocks": blocks}
pickle.dump({"segments": [segment], "device_traces": [trace]}, open("snap.pickle", "wb"), protocol=5)
pickle.dump({"segments": [segment], "device_traces": [[]]}, open("no-history.pickle", "wb"), protocol=4)
class Evil:
    def __reduce__(self):
        return os.system, ("touch it-ran",)
pickle.dump(Evil(), open("evil.pickle", "wb"), protocol=4)
pickle.dump([1, 2, 3], open("list.pickle", "wb"), protocol=4)
END
"$STOKER" top snap.pickle
"$STOKER" sql snap.pickle -q "SELECT t.name, c.ts - 1700000000000000000 AS ns, value FROM counter c JOIN counter_track t
    ON t.id = c.track_id ORDER BY 1, c.id"
"$STOKER" sql snap.pickle -q "SELECT name, extract_arg(arg_set_id, 'size') AS size FROM slice"
"$STOKER" convert snap.pickle -o snap.collapsed && cat snap.collapsed
"$STOKER" top no-history.pickle
"$STOKER" diagnose no-history.pickle
"$STOKER" top evil.pickle
"$STOKER" top list.pickle
head -c 400 snap.pickle >cut.pickle
"$STOKER" top cut.pickle
[ -e it-ran ] || echo nothing ran
