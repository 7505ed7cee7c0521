# Suites and ladders that cannot be read: line, column, what was found and what was wanted.
try() {
    printf -- '--- %s\n' "$*"
    "$STOKER" bench "$@" 2>&1
    echo "exit $?"
}
try --suite missing.toml
try --ladder missing.toml
printf '[[compare]]\nname = "x"\na = "true"\nbb = "true"\n' >key.toml
try --suite key.toml
printf '[[compare]]\nname = "x"\na = "true"\n' >half.toml
try --suite half.toml
printf '[[measure]]\nname = "x"\ncommand = "touch ran"\nrounds = "many"\n' >type.toml
try --suite type.toml
printf 'title = "open\n' >syntax.toml
try --suite syntax.toml
printf '' >empty.toml
try --suite empty.toml
printf '[[step]]\nname = "a"\ncommand = "touch ran"\n' >one.toml
try --ladder one.toml
printf '[[step]]\nname = "a"\ncommand = "touch ran"\n[[step]]\nname = "a"\ncommand = "touch ran"\n' >twice.toml
try --ladder twice.toml
printf '[[measure]]\nname = "x"\ncommand = "touch ran"\n' >suite.toml
try --ladder suite.toml
printf '[[step]]\nname = "a"\ncommand = "touch ran"\n[[step]]\nname = "b"\ncommand = "touch ran"\n' >steps.toml
try --suite steps.toml
printf 'no marks\n' >page.md
try --suite suite.toml --into page.md
try --suite suite.toml --into missing.md
try --suite suite.toml touch
try --suite suite.toml --log notes.txt
try --suite suite.toml --log missing/PERF.md
printf 'not a log\n' >PERF.md
try --suite suite.toml --log PERF.md
printf '[[measure]]\nname = "x a"\ncommand = "touch ran"\n[[compare]]\nname = "x"\na = "touch ran"\nb = "touch ran"\n' >same.toml
rm PERF.md
try --suite same.toml --log PERF.md
ls
