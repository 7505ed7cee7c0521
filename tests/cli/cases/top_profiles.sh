# Profiles: samples with and without own code, functions as pstats has them, several kinds at once.
printf 'main;train;read 5\nmain;train;train 2\nmain;train 1\nclone 4\n' >stacks.txt
python3 - <<'END'
import marshal
start, work, fib = ("src/a.py", 1, "main"), ("/home/u/src/b.py", 5, "work"), ("/home/u/src/b.py", 9, "fib")
glue, read = ("lib/g.py", 3, "glue"), ("~", 0, "<method 'read'>")
stats = {
    start: (1, 1, 0.010, 0.200, {}),
    work: (2, 2, 0.020, 0.080, {start: (2, 2, 0.020, 0.080)}),
    fib: (1, 7, 0.005, 0.005, {work: (1, 1, 0.001, 0.005), fib: (6, 6, 0.004, 0.004)}),
    glue: (2, 2, 0.010, 0.110, {start: (1, 1, 0.005, 0.055), work: (1, 1, 0.005, 0.055)}),
    read: (9, 9, 0.100, 0.100, {glue: (9, 9, 0.100, 0.100)}),
}
marshal.dump(stats, open("run.prof", "wb"))
END
"$STOKER" top stacks.txt
"$STOKER" top stacks.txt --own 'tr*' --format csv
"$STOKER" top run.prof
"$STOKER" top run.prof --own 'src/*' --sort tottime
"$STOKER" top stacks.txt run.prof --limit 1 --format json
"$STOKER" top stacks.txt run.prof --by thread
"$STOKER" top run.prof --own src --own-only --sort tottime
"$STOKER" top run.prof --like 'lib/*'
"$STOKER" top run.prof --own sr
"$STOKER" top run.prof --callers '*read*'
"$STOKER" top run.prof --callees work --format csv
"$STOKER" top stacks.txt --callees main
"$STOKER" top run.prof --callers nobody
"$STOKER" top run.prof --own-only
