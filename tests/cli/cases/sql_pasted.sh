# Queries as they are pasted from BigQuery and Perfetto, and what is said of those that do not fit.
cat >run.json <<'JSON'
[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":10,"name":"unknown","cat":"Op","args":{"name":"MatMul"}},
{"ph":"X","pid":1,"tid":1,"ts":12,"dur":2.5,"name":"unknown","cat":"Op","args":{"name":"Relu"}},
{"ph":"C","pid":1,"ts":4,"name":"queue","args":{"value":2.5}}]
JSON
"$STOKER" sql run.json --format csv -q 'SELECT index, e.ph, e.ts, e.dur, e.args.name AS arg_name FROM `p-1.d.t` AS t, UNNEST(t.traceEvents) AS e WITH OFFSET AS index'
"$STOKER" sql run.json -q 'SELECT sum(dur) AS total, arg_name FROM `p-1.d.t_processed` WHERE ph = '"'X'"' GROUP BY arg_name ORDER BY 1 DESC'
"$STOKER" sql run.json -q 'SELECT arg_name, dur FROM slice' -q '.schema trace_events'
"$STOKER" sql run.json -q 'INCLUDE PERFETTO MODULE slices.with_context; SELECT category, tid FROM thread_slice LIMIT 1'
"$STOKER" sql run.json -q 'SELECT extract_arg(arg_set_id, "name") FROM slice'
echo "exit $?"
"$STOKER" sql run.json -q 'SELECT dur FROM slice WHERE name = "unknown"'
echo "exit $?"
"$STOKER" sql run.json -q 'SELECT name FROM slice, UNNEST(args)'
echo "exit $?"
"$STOKER" sql run.json -q 'INCLUDE PERFETTO MODULE android.anrs; SELECT * FROM android_anrs'
echo "exit $?"
"$STOKER" sql run.json -q 'SELECT arg_nme FROM slice'
