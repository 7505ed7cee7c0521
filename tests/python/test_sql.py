#!/usr/bin/env python3
"""stoker sql: formats, errors, examples and the shell, on small Chrome traces. Called with the build directory."""
import csv
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import runlib

TRACE = {"traceEvents": [
    {"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": "python"}},
    {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "main"}},
    {"ph": "M", "pid": 2, "tid": 7, "name": "thread_name", "args": {"name": "stream 7"}},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "name": "ProfilerStep#1", "cat": "user_annotation"},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 10, "dur": 30, "name": "MatchingFiles", "cat": "cpu_op",
     "args": {"files": 12, "pattern": "a, \"b\"", "shape": [1, 2]}},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 50, "dur": 20, "name": "matmul", "cat": "cpu_op"},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 100, "dur": 100, "name": "ProfilerStep#2", "cat": "user_annotation"},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 120, "dur": 10, "name": "matmul", "cat": "cpu_op"},
    {"ph": "X", "pid": 2, "tid": 7, "ts": 60, "dur": 15.5, "name": "sgemm\u001b[31m\n", "cat": "kernel"},
    {"ph": "s", "pid": 1, "tid": 1, "ts": 55, "id": 9, "name": "launch", "cat": "ac2g"},
    {"ph": "f", "pid": 2, "tid": 7, "ts": 60, "id": 9, "name": "launch", "cat": "ac2g", "bp": "e"},
    {"ph": "C", "pid": 1, "ts": 5, "name": "memory", "args": {"bytes": 7}},
    {"ph": "Z", "pid": 1, "tid": 1, "ts": 1},
]}
# Two queries that were published for timelines of TensorFlow 1 in BigQuery, as they are but for the name of the project.
FLATTEN = """SELECT
index,
traceEvent.ph,
traceEvent.cat,
traceEvent.name,
traceEvent.pid,
traceEvent.tid,
traceEvent.ts,
traceEvent.dur,
traceEvent.args.name as arg_name,
traceEvent.args.op as arg_op
FROM
`my-project-dev.traces.tf115` AS t,
UNNEST(t.traceEvents) as traceEvent WITH OFFSET AS index;
"""
TOTALS = """SELECT
sum(dur) as total_dur,
avg(dur) as avg_dur,
min(dur) as min_dur,
max(dur) as max_dur,
arg_name
FROM `my-project-dev.traces.tf115_processed`
group by arg_name order by 1 desc
limit 20;
"""
SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "repro", "traces")
RECIPE = "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20"


def write_trace(directory, trace=TRACE):
    path = os.path.join(directory, "t.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)
    return path


def run(program, *args, stdin=""):
    return subprocess.run([program, "sql", "--no-cache", "--quiet", *args], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, encoding="utf-8", timeout=60, check=False)


def answer(program, path, query):
    """Rows of a query as dictionaries."""
    done = run(program, path, "--format", "json", "-q", query)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_recipe_as_table(program, directory):
    done = run(program, write_trace(directory), "-q", RECIPE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["name", "sum(dur)", "avg(dur)", "min(dur)", "max(dur)"], lines
    assert set(lines[1]) == {"-", " "}, lines
    assert "matmul 30000 15000 10000 20000".split() in [line.split() for line in lines], lines
    assert len(lines) == 7
    # numbers stand on the right
    assert lines[0].index("sum(dur)") + len("sum(dur)") == lines[2].index("100000") + len("100000"), lines
    # what came from the file is escaped
    assert "\x1b" not in done.stdout and r"sgemm\x1b[31m\x0a" in done.stdout


def test_csv_and_json(program, directory):
    path = write_trace(directory)
    query = ("SELECT extract_arg(arg_set_id, 'pattern') AS pattern, parent_id IS NULL AS top, '' AS empty, NULL AS n, "
             "1.5 AS number FROM slice WHERE name = 'MatchingFiles'")
    done = run(program, path, "--format", "csv", "-q", query)
    assert done.stdout == 'pattern,top,empty,n,number\n"a, ""b""",0,"",,1.5\n', done.stdout
    assert list(csv.reader(io.StringIO(done.stdout)))[1] == ['a, "b"', "0", "", "", "1.5"]
    assert answer(program, path, query) == [{"pattern": 'a, "b"', "top": 0, "empty": "", "n": None, "number": 1.5}]
    assert answer(program, path, "SELECT 1 WHERE 0") == []
    assert answer(program, path, "SELECT name FROM slice WHERE category = 'kernel'") == [{"name": "sgemm\x1b[31m\n"}]
    assert answer(program, path, "SELECT -9223372036854775808 AS low, 9e999 AS inf")[0] == {
        "low": -9223372036854775808, "inf": None}


def test_tables_agree_with_the_file(program, directory):
    path = write_trace(directory)
    assert answer(program, path, "SELECT key, value, value_type FROM args ORDER BY key") == [
        {"key": "files", "value": 12, "value_type": "int"},
        {"key": "pattern", "value": 'a, "b"', "value_type": "string"},
        {"key": "shape", "value": "[1,2]", "value_type": "json"}]
    query = "SELECT thread_name, sum(dur) AS ns FROM slice WHERE category = 'kernel' GROUP BY utid"
    assert answer(program, path, query) == [
        {"thread_name": "stream 7", "ns": 15500}]
    assert answer(program, path, "SELECT a.name AS a, b.category AS b FROM flow JOIN slice a ON a.id = slice_out "
                  "JOIN slice b ON b.id = slice_in") == [{"a": "matmul", "b": "kernel"}]
    assert answer(program, path, "SELECT number, dur FROM step") == [
        {"number": 1, "dur": 100000}, {"number": 2, "dur": 100000}]
    assert answer(program, path, "SELECT count, lost FROM note")[0]["lost"] == 1
    rows = answer(program, path, "SELECT name, count, total_ns, self_ns FROM top('ProfilerStep*') ORDER BY name")
    figures = [(row["count"], row["total_ns"], row["self_ns"]) for row in rows]
    assert figures == [(1, 100000, 50000), (1, 100000, 90000)], rows
    assert answer(program, path, "SELECT both_ns FROM overlap('MatchingFiles', 'ProfilerStep*')") == [{"both_ns": 30000}]


def test_several_queries_and_files(program, directory):
    path = write_trace(directory)
    script = os.path.join(directory, "q.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write("-- a comment; with a semicolon\nCREATE VIEW ops AS SELECT * FROM slice WHERE cat = 'cpu_op';\n"
                   "SELECT count(*) AS n FROM ops")
    done = run(program, path, "-q", "SELECT name FROM ops WHERE dur = 10000", "-f", script, "--format", "csv")
    assert done.stdout == "n\n3\nname\nmatmul\n", (done.stdout, done.stderr)
    done = run(program, path, "-q", "SELECT 1 AS a; SELECT 2 AS b")
    assert done.stdout.split("\n\n")[1].startswith("b\n"), done.stdout


def test_mistakes_show_place_and_name(program, directory):
    path = write_trace(directory)
    for query, message, hint, column in (
            ("SELECT nme FROM slice", "no such column: nme", "Did you mean 'name'?", 7),
            ("SELECT 1,\n   s.duur FROM slice s", "no such column: s.duur", "Did you mean 'dur'?", 0),
            ("SELECT * FROM slic", "no such table: slic", "Did you mean 'slice'?", None),
            ("SELECT extrct_arg(1, 'a')", "no such function: extrct_arg", "Did you mean 'extract_arg'?", 7),
            ("SELCT 1", 'near "SELCT": syntax error', "Did you mean 'SELECT'?", 0)):
        done = run(program, path, "-q", query)
        assert done.returncode == 2 and done.stdout == "", done
        lines = done.stderr.splitlines()
        assert lines[0] == "stoker: SQL: " + message, lines
        assert lines[-1] == hint, lines
        if column is not None:
            assert lines[2] == " " * (2 + column) + "^", lines


def write_timelines(directory):
    """Timelines of TensorFlow 1: names are in args."""
    paths, events = [], []
    for step in range(3):
        found = [{"ph": "X", "cat": "Op", "name": "unknown", "pid": 1, "tid": i, "ts": 1584128411446459 + 10 * step + i,
                  "dur": 100 * (i + 1) + step, "args": {"name": name, "op": "unknown"}}
                 for i, name in enumerate(("MatchingFiles:MatchingFiles", "Iterator::Model", "it's `quoted`"))]
        path = os.path.join(directory, "timeline-%d.json" % step)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": found}, file)
        paths.append(path)
        events += found
    return paths, events


def write_script(directory, text):
    path = os.path.join(directory, "pasted.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_queries_of_bigquery_run_as_pasted(program, directory):
    paths, events = write_timelines(directory)
    done = run(program, *paths, "--format", "json", "-f", write_script(directory, FLATTEN))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert list(rows[0]) == ["index", "ph", "cat", "name", "pid", "tid", "ts", "dur", "arg_name", "arg_op"], rows[0]
    found = sorted((row["ph"], row["cat"], row["pid"], row["tid"], row["ts"], row["dur"], row["arg_name"]) for row in rows)
    assert found == sorted((e["ph"], e["cat"], e["pid"], e["tid"], e["ts"], e["dur"], e["args"]["name"]) for e in events)
    assert sorted(row["index"] for row in rows) == list(range(len(events)))
    done = run(program, *paths, "--format", "json", "-f", write_script(directory, TOTALS))
    assert done.returncode == 0, done.stderr
    wanted = {}
    for event in events:
        wanted.setdefault(event["args"]["name"], []).append(event["dur"])
    assert [(r["arg_name"], r["total_dur"], r["avg_dur"], r["min_dur"], r["max_dur"]) for r in json.loads(done.stdout)] == sorted(
        ((name, sum(d), sum(d) / len(d), min(d), max(d)) for name, d in wanted.items()), key=lambda row: -row[1])
    assert answer(program, paths[0], "SELECT arg_name, sum(dur) AS ns FROM slice GROUP BY 1 ORDER BY 2 LIMIT 1") == [
        {"arg_name": "MatchingFiles:MatchingFiles", "ns": 100000}]


def test_queries_of_the_document_run_on_its_timelines(program, directory):
    folder = os.path.join(SHARED, "tf1_timelines")
    if not os.path.isdir(folder):
        print("skipped: no timelines in", folder)
        return
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    done = run(program, *paths, "--format", "json", "-f", os.path.join(SHARED, "q1.sql"))
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout) if row["ph"] == "X"]
    events = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            events += [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    assert sorted((row["ts"], row["dur"], row["arg_name"]) for row in rows) == sorted(
        (event["ts"], event["dur"], event["args"]["name"]) for event in events)
    done = run(program, *paths, "--format", "json", "-f", os.path.join(SHARED, "q2.sql"))
    assert done.returncode == 0, done.stderr
    totals = {row["arg_name"]: row["total_dur"] for row in json.loads(done.stdout)}
    assert totals["MatchingFiles:MatchingFiles"] == sum(
        event["dur"] for event in events if event["args"]["name"] == "MatchingFiles:MatchingFiles")


def test_double_quotes_are_not_strings(program, directory):
    path = write_trace(directory)
    for query, value in (('SELECT extract_arg(arg_set_id, "name") FROM slice', "name"),
                         ('SELECT name FROM slice WHERE name = "matmul"', "matmul"),
                         ('SELECT * FROM top("matmul")', "matmul")):
        done = run(program, path, "-q", query)
        assert done.returncode == 2 and done.stdout == "", done
        assert "strings are in single quotes: '%s'" % value in done.stderr.splitlines()[0], done.stderr
        assert done.stderr.splitlines()[2] == "  " + " " * query.index('"') + "^", done.stderr
    done = run(program, path, "-q", 'SELECT arg_none FROM slice')
    assert done.returncode == 2 and "no slice has an arg 'none'" in done.stderr, done


def test_statements_of_perfetto(program, directory):
    path = write_trace(directory)
    done = run(program, path, "--format", "csv", "-f", write_script(directory, """
-- As published.
INCLUDE PERFETTO MODULE slices.with_context;
INCLUDE PERFETTO MODULE android.startup.startups;
CREATE PERFETTO TABLE ops AS SELECT * FROM thread_or_process_slice WHERE category = 'cpu_op';
SELECT count(*) AS n FROM ops;
SELECT value FROM args WHERE key = 'args.files';
SELECT name, severity FROM stats;
"""))
    assert done.returncode == 0 and done.stdout == "n\n3\nvalue\n12\nname,severity\nno_phase,data_loss\n", done
    done = run(program, path, "-q", "INCLUDE PERFETTO MODULE android.startup.startups", "-q", "SELECT * FROM android_startups")
    assert done.returncode == 2 and done.stderr == (
        "stoker: SQL: no such table: android_startups (stoker does not have Perfetto's module android.startup.startups)\n"), done


def test_commands_run_through_options(program, directory):
    path = write_trace(directory)
    done = run(program, path, "-q", ".tables", "-q", ".schema slice")
    assert done.returncode == 0 and "recorded_total" in done.stdout and "track_id INTEGER" in done.stdout, done
    script = write_script(directory, "-- first\n.format csv\nSELECT 1 AS a;\n  .format json\nSELECT 2 AS b;\n.quit\nSELECT 3")
    done = run(program, path, "-f", script, "-q", "SELECT 4")
    assert done.returncode == 0 and done.stdout == 'a\n1\n[\n{"b":2}\n]\n', done
    done = run(program, path, "-q", ".tabels")
    assert done.returncode == 2 and "did you mean '.tables'?" in done.stderr, done
    assert {row["name"] for row in json.loads(run(program, path, "--format", "json", "-q", ".tables").stdout)} >= {"slice", "stats"}


def test_files_stay_closed(program, directory):
    path = write_trace(directory)
    other = os.path.join(directory, "other.db")
    for query in ("ATTACH '%s' AS other", "VACUUM INTO '%s'", "SELECT load_extension('%s')"):
        done = run(program, path, "-q", query % other)
        assert done.returncode == 2, done
        assert not os.path.exists(other)


def test_wrong_usage(program, directory):
    path = write_trace(directory)
    done = run(program, path, "--format", "xml", "-q", "SELECT 1")
    assert done.returncode == 2 and "table, csv, raw-csv or json, found 'xml'" in done.stderr, done
    done = run(program, "-")
    assert done.returncode == 2 and "give them with -q" in done.stderr, done


def test_long_results_come_whole(program, directory):
    path = write_trace(directory)
    query = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 25000) "
             "SELECT x, 'row ' || x AS text FROM c")
    lines = run(program, path, "-q", query).stdout.splitlines()
    assert len(lines) == 25002 and lines[-1].split() == ["25000", "row", "25000"]
    assert len(answer(program, path, query)) == 25000


def test_script_from_standard_input(program, directory):
    path = write_trace(directory)
    done = run(program, path, stdin=".format csv\nSELECT 1 AS a,\n  2 AS b;\n\n.format\nSELECT 3 AS c")
    assert done.returncode == 0 and done.stdout == "a,b\n1,2\ncsv\nc\n3\n", done
    done = run(program, path, stdin="SELECT nothing;\nSELECT 1;\n")
    assert done.returncode == 2 and done.stdout == "", done
    done = run(program, path, stdin=".tabels\n")
    assert done.returncode == 2 and "did you mean '.tables'?" in done.stderr, done
    done = run(program, path, stdin=".tables\n.schema slice\n.notes\n.help\n.quit\nSELECT 1;\n")
    assert done.returncode == 0, done
    for word in ("recorded_total", "top([pattern", "track_id INTEGER", "left out", ".examples"):
        assert word in done.stdout, word
    assert "1\n-\n1\n" not in done.stdout


def test_examples_run(program, directory):
    path = write_trace(directory)
    listing = run(program, path, stdin=".examples\n").stdout
    count = listing.count("\n-- ") + 1
    assert count >= 10 and "GROUP BY name" in listing and "MatchingFiles" in listing, listing
    for number in range(1, count + 1):
        done = run(program, path, stdin=".examples %d\n" % number)
        assert done.returncode == 0 and done.stderr == "", (number, done)


class Terminal:
    """The shell in a terminal of its own."""

    def __init__(self, program, path, directory, columns=80):
        env = dict(os.environ, XDG_STATE_HOME=os.path.join(directory, "state"), TERM="dumb", HOME=directory,
                   COLUMNS=str(columns))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(program, [program, "sql", "--no-cache", "--quiet", path], env)
        self.seen = ""

    def wait_for(self, text, seconds=30):
        """Reads until `text` comes; returns all up to it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError("waited for %r, found %r" % (text, self.seen))
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError("the shell ended; waited for %r, found %r" % (text, self.seen))
            self.seen += data.decode("utf-8", "replace")
        place = self.seen.index(text) + len(text)
        before, self.seen = self.seen[:place], self.seen[place:]
        return before

    def send(self, text):
        try:
            os.write(self.fd, text.encode())
        except OSError:
            pass  # it has ended, which the next read tells

    def close(self):
        """Ends with Ctrl-D; returns the exit status. One that comes while the terminal changes its mode is taken for
        text, and on a line with text Ctrl-D does not end: Ctrl-U empties it."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.send("\x15\x04")
            time.sleep(0.05)
            ready, _, _ = select.select([self.fd], [], [], 0.3)
            try:
                if ready and not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while pid == 0 and time.monotonic() < end:
            time.sleep(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError("the shell did not end")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_shell_runs_statements_of_many_lines(program, directory):
    shell = Terminal(program, write_trace(directory), directory)
    shell.wait_for("stoker> ")
    shell.send("SELECT 40 +\n")
    shell.wait_for("...> ")
    shell.send("2 AS answer;\n")
    shell.wait_for("42")
    shell.wait_for("1 row, ")
    shell.wait_for("stoker> ")
    shell.send("SELECT wrong;\n")  # a mistake does not end it
    shell.wait_for("no such column: wrong")
    shell.wait_for("stoker> ")
    assert shell.close() == 0


def test_shell_interrupt_stops_the_query_only(program, directory):
    shell = Terminal(program, write_trace(directory), directory)
    shell.wait_for("stoker> ")
    shell.send("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c;\n")
    time.sleep(0.5)
    shell.send("\x03")
    shell.wait_for("interrupted")
    shell.wait_for("stoker> ")
    shell.send("SELECT 'half")
    shell.wait_for("'half")
    shell.send("\x03")  # drops the line
    shell.wait_for("stoker> ")
    shell.send("SELECT 6 * 7 AS answer;\n")
    shell.wait_for("42")
    shell.wait_for("stoker> ")
    assert shell.close() == 0


def test_shell_takes_text_of_any_language(program, directory):
    shell = Terminal(program, write_trace(directory), directory)
    shell.wait_for("stoker> ")
    shell.send("SELECT length('\u00e4\u20ac\U0001f600') || ' characters' AS n;\n")
    shell.wait_for("3 characters")
    shell.wait_for("stoker> ")
    assert shell.close() == 0


def test_shell_keeps_history(program, directory):
    shell = Terminal(program, write_trace(directory), directory)
    shell.wait_for("stoker> ")
    shell.send("SELECT 'remember me';\n")
    shell.wait_for("1 row, ")
    shell.wait_for("stoker> ")
    assert shell.close() == 0
    path = os.path.join(directory, "state", "stoker", "sql_history")
    if not os.path.exists(path):
        return  # built without libedit
    with open(path, encoding="utf-8") as file:
        assert "remember" in file.read()
    assert os.stat(path).st_mode & 0o077 == 0


def test_shell_cuts_rows_to_the_terminal(program, directory):
    shell = Terminal(program, write_trace(directory), directory)
    shell.wait_for("stoker> ")
    shell.send("SELECT 12345 AS number, replace(hex(zeroblob(100)), '00', 'ab') AS long;\n")
    shell.wait_for("-----\r\n")
    line = shell.wait_for("\r\n").rstrip("\r\n")
    assert line.endswith("\u2026") and len(line) <= 80, line
    shell.wait_for("stoker> ")
    assert shell.close() == 0


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
