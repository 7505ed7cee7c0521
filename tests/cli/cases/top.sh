# Totals of slices: by name, by thread, by step and name, of some names, in a window of time, for programs.
cat >run.json <<'END'
{"traceEvents": [
{"ph": "M", "pid": 7, "tid": 1, "name": "process_name", "args": {"name": "python"}},
{"ph": "M", "pid": 7, "tid": 1, "name": "thread_name", "args": {"name": "main"}},
{"ph": "X", "pid": 7, "tid": 1, "ts": 0, "dur": 1000, "name": "ProfilerStep#1", "cat": "user"},
{"ph": "X", "pid": 7, "tid": 1, "ts": 10, "dur": 300, "name": "read", "cat": "io"},
{"ph": "X", "pid": 7, "tid": 1, "ts": 400, "dur": 200, "name": "decode\u001b[31m", "cat": "cpu"},
{"ph": "X", "pid": 7, "tid": 1, "ts": 1000, "dur": 800, "name": "ProfilerStep#2", "cat": "user"},
{"ph": "X", "pid": 7, "tid": 1, "ts": 1100, "dur": 100.5, "name": "read", "cat": "io"},
{"ph": "X", "pid": 7, "tid": 2, "ts": 1700, "dur": 500, "name": "write", "cat": "io"}]}
END
"$STOKER" top run.json
"$STOKER" top run.json --by thread
"$STOKER" top run.json --by step --with-name --sort name --limit 3
"$STOKER" top run.json --by cat --sort self --format csv
"$STOKER" top run.json --like 'r*' --format json
"$STOKER" top run.json --track main --category io --from 1ms --to 1.2ms --format csv
"$STOKER" top run.json --no-fold --limit 2
# Recursion is in the total once, what the profiler says of itself is left out, and asked for by name it is there.
cat >kineto.json <<'END'
[{"ph": "X", "pid": 1, "tid": 1, "ts": 100, "dur": 900, "name": "call", "cat": "cpu_op"},
{"ph": "X", "pid": 1, "tid": 1, "ts": 200, "dur": 700, "name": "call", "cat": "cpu_op"},
{"ph": "X", "pid": 1, "tid": 1, "ts": 300, "dur": 500, "name": "leaf", "cat": "cpu_op"},
{"ph": "X", "pid": -1, "tid": 0, "ts": 0, "dur": 4, "name": "Buffer Flush", "cat": "overhead"},
{"ph": "X", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 9000, "name": "PyTorch Profiler (0)", "cat": "Trace"},
{"ph": "i", "pid": "Traces", "tid": "Trace", "ts": 0, "s": "g", "name": "Iteration Start: PyTorch Profiler"},
{"ph": "i", "pid": "", "tid": "", "ts": 9001, "s": "g", "name": "Record Window End"}]
END
"$STOKER" top --quiet kineto.json
"$STOKER" top --quiet kineto.json --all --limit 1
"$STOKER" top --quiet kineto.json --like 'PyTorch*' --format csv
"$STOKER" top --quiet kineto.json --callers leaf
