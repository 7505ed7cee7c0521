#!/usr/bin/env python3
"""Ask a plain SQLite table of slices, without an index, and print the time: trace_sqlite.py FOLDER FILE.

FOLDER is what trace_queries --dump writes. FILE is the table on disk, made when it is missing; it is copied to memory first.
"""
import json
import os
import sqlite3
import sys
import time

import numpy

QUERY = "SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20"


def make(folder, path):
    def column(name, kind):
        return numpy.fromfile(os.path.join(folder, name), kind).tolist()
    with open(os.path.join(folder, "strings.nul"), encoding="utf-8") as f:
        texts = f.read().split("\0")
    if os.path.exists(path + ".part"):
        os.remove(path + ".part")
    db = sqlite3.connect(path + ".part", isolation_level=None)
    db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
                     "CREATE TABLE slice(ts INTEGER, dur INTEGER, track_id INTEGER, name TEXT)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO slice VALUES (?, ?, ?, ?)",
                   zip(column("ts.i64", "<i8"), column("dur.i64", "<i8"), column("track.u32", "<u4"),
                       (texts[n] for n in column("name.u32", "<u4"))))
    db.execute("COMMIT")
    db.close()
    os.rename(path + ".part", path)


def main():
    folder, path = sys.argv[1:]
    if not os.path.exists(path):
        make(folder, path)
    db = sqlite3.connect(":memory:")
    with sqlite3.connect(path) as disk:
        disk.backup(db)
    rows = db.execute("SELECT count(*) FROM slice").fetchone()[0]
    before, start = time.process_time(), time.perf_counter()
    found = db.execute(QUERY).fetchall()
    seconds, cpu = time.perf_counter() - start, time.process_time() - before
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu_s": cpu, "cpu_per_1000": 1000 * cpu / rows,
                      "answer": sum(r[1] + r[3] + r[4] for r in found),
                      "version": f"SQLite {sqlite3.sqlite_version}"}))


if __name__ == "__main__":
    main()
