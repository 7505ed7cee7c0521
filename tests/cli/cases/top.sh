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
