/* What SQL offers, in words: tables, views, functions, and queries to start from. */
#include "analyze/sql.h"

const stk__sql_table stk__sql_tables[] = {
    {"slice", "table", "spans of time, with their track, thread and process; instants have dur 0", NULL},
    {"thread", "table", "threads, and streams of GPUs", NULL},
    {"process", "table", "processes, and devices", NULL},
    {"track", "table", "rows of the timeline that slices, counters and samples lie on", NULL},
    {"counter", "table", "values over time", NULL},
    {"flow", "table", "arrows from one slice to another", NULL},
    {"args", "table", "details of slices, by arg_set_id; see also extract_arg(arg_set_id, key)", NULL},
    {"step", "table", "training steps, from markers or inferred", NULL},
    {"file", "table", "the files that were read", NULL},
    {"fact", "table", "what the files say of themselves", NULL},
    {"note", "table", "what was left out or changed while reading, by reason", NULL},
    {"sample", "table", "stacks that a sampling profiler saw", NULL},
    {"callsite", "table", "the tree of those stacks", NULL},
    {"frame", "table", "functions in those stacks", NULL},
    {"function", "table", "functions of a profile without stacks (pstats)", NULL},
    {"function_call", "table", "who called whom in such a profile", NULL},
    {"recorded_total", "table", "exact totals that a recorder wrote, with what it lost", NULL},
    {"thread_track", "view", "tracks of threads", NULL},
    {"process_track", "view", "tracks of processes", NULL},
    {"counter_track", "view", "tracks of counters", NULL},
    {"thread_slice", "view", "slices on threads", NULL},
    {"process_slice", "view", "slices of processes that lie on no thread", NULL},
    {"thread_or_process_slice", "view", "slices on threads and of processes", NULL},
    {"slices", "view", "slice, as Perfetto also names it", NULL},
    {"trace_events", "view", "slices and counters as Chrome's JSON has them, in microseconds, with any arg_KEY", NULL},
    {"process_counter_track", "view", "tracks of counters that belong to a process", NULL},
    {"thread_counter_track", "view", "tracks of counters that belong to a thread", NULL},
    {"counters", "view", "counter with its unit", NULL},
    {"trace_bounds", "view", "when the trace starts and ends", NULL},
    {"metadata", "view", "fact, as Perfetto names it", NULL},
    {"stats", "view", "note, as Perfetto names it", NULL},
    {"thread_state", "view", "of Perfetto; always empty, scheduling is not read", NULL},
    {"sched", "view", "of Perfetto; always empty", NULL},
    {"sched_slice", "view", "of Perfetto; always empty", NULL},
    {"stack_profile_frame", "view", "frame, as Perfetto names it", NULL},
    {"stack_profile_callsite", "view", "callsite, as Perfetto names it", NULL},
    {"cpu_profile_stack_sample", "view", "sample, as Perfetto names it", NULL},
    {"top", "function", "totals per name, with percentiles and self time", "top([pattern [, grouping]])"},
    {"gaps", "function", "time in which nothing runs on a track", "gaps([min_ns [, pattern]])"},
    {"steps", "function", "the table step", "steps()"},
    {"stacks", "function", "the tree of nested names, with totals", "stacks([pattern])"},
    {"overlap", "function", "how long two sets of names ran at once", "overlap(pattern_a, pattern_b)"},
    {"ancestor_slice", "function", "the slices around one, from its parent up", "ancestor_slice(id)"},
    {"descendant_slice", "function", "the slices inside one", "descendant_slice(id)"},
    {NULL, NULL, NULL, NULL},
};

const stk__sql_example stk__sql_examples[] = {
    {"time per name, most first",
     "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20;"},
    {"the same with percentiles and self time, computed in C",
     "SELECT name, count, total_ns / 1e6 AS total_ms, self_ns / 1e6 AS self_ms, p50_ns, p95_ns FROM top() LIMIT 20;"},
    {"time per thread and name",
     "SELECT thread_name, name, count(*) AS count, sum(dur) / 1e6 AS ms FROM slice GROUP BY thread_name, name\n"
     "ORDER BY ms DESC LIMIT 20;"},
    {"what an input pipeline does with files",
     "SELECT name, count(*) AS count, sum(dur) / 1e6 AS ms FROM slice\n"
     "WHERE name LIKE '%MatchingFiles%' OR name LIKE '%TFRecord%' OR name LIKE '%ReadFile%'\n"
     "GROUP BY name ORDER BY ms DESC;"},
    {"iterators of tf.data, by self time",
     "SELECT name, count, self_ns / 1e6 AS self_ms, total_ns / 1e6 AS total_ms FROM top('Iterator*')\n"
     "ORDER BY self_ns DESC LIMIT 20;"},
    {"the longest gaps of 1 ms or more, and what stands around them",
     "SELECT track, ts, dur / 1e6 AS ms, before_name, after_name FROM gaps(1000000) ORDER BY dur DESC LIMIT 10;"},
    {"how busy each stream of a GPU is",
     "SELECT process_name, thread_name, count(*) AS kernels, sum(dur) / 1e6 AS busy_ms,\n"
     "       round(100.0 * sum(dur) / nullif(max(ts + dur) - min(ts), 0), 1) AS percent\n"
     "FROM slice WHERE category IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'Kernel', 'Memcpy', 'Memset')\n"
     "GROUP BY utid ORDER BY busy_ms DESC;"},
    {"steps, and how they vary",
     "SELECT number, dur / 1e6 AS ms, round(100.0 * dur / avg(dur) OVER (), 1) AS percent_of_mean, source\n"
     "FROM step ORDER BY ts;"},
    {"what runs inside each step, on the thread of the step",
     "SELECT step.number, slice.name, count(*) AS count, sum(slice.dur) / 1e6 AS ms\n"
     "FROM step JOIN slice ON slice.parent_id = step.slice_id GROUP BY 1, 2 ORDER BY 1, 4 DESC LIMIT 50;"},
    {"from launch to kernel: flows by name, with the delay",
     "SELECT a.name AS launch, b.name AS kernel, count(*) AS count, avg(b.ts - a.ts) / 1e3 AS delay_us\n"
     "FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in\n"
     "GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20;"},
    {"slices with a detail that is known by its key",
     "SELECT name, dur, extract_arg(arg_set_id, 'stream') AS stream FROM slice\n"
     "WHERE extract_arg(arg_set_id, 'stream') IS NOT NULL ORDER BY dur DESC LIMIT 10;"},
    {"which details there are", "SELECT key, value_type, count(*) FROM args GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 30;"},
    {"how much of the steps is spent waiting for data",
     "SELECT both_ns / 1e6 AS ms, round(100.0 * both_ns / nullif(b_ns, 0), 1) AS percent\n"
     "FROM overlap('enumerate(DataLoader)*', 'ProfilerStep*');"},
    {"hot paths: nested names by self time",
     "SELECT path, count, self / 1e6 AS self_ms FROM stacks() ORDER BY self DESC LIMIT 10;"},
    {"counters", "SELECT name, min(value), avg(value), max(value) FROM counter GROUP BY name;"},
    {"functions of a profile, by time in them and below",
     "SELECT name, source_file, line_number, calls, self_ns / 1e9 AS self_s, total_ns / 1e9 AS total_s FROM function\n"
     "ORDER BY total_ns DESC LIMIT 20;"},
    {"where the samples of a profiler fell",
     "SELECT frame.name, sum(weight) AS weight FROM sample JOIN callsite ON callsite.id = callsite_id\n"
     "JOIN frame ON frame.id = frame_id GROUP BY frame.id ORDER BY weight DESC LIMIT 20;"},
    {"what was skipped or changed while reading",
     "SELECT path, reason, count, note.offset, text FROM note JOIN file ON file.id = file_id ORDER BY count DESC;"},
    {NULL, NULL},
};
