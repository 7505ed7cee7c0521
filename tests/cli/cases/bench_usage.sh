# Options that make no sense are told before anything runs.
try() {
    printf -- '--- %s\n' "$*"
    "$STOKER" bench "$@" 2>&1
    echo "exit $?"
}
try
try ''
try 'touch ran' '  '
try 'touch ran' --param n=1,2
try 'touch ran {n}' --param n
try 'touch ran {n}' --param n=
try 'touch ran {n}' --param n=1 --param n=2
try 'touch ran {n}' --param n 1 3
try 'touch ran {n}' --param 'n =1'
try 'touch ran {n}' --param n=1,,2
try 'touch ran {n}' --param n=1,2,1
try 'touch ran {n}' --param n=1..2000
try 'touch ran {n}' --param n=1:2:10
try 'touch ran {n}' --param n=1..40 --param m=1..40
try 'touch ran {n}' -L n 1,2
try 'touch ran {n}' --parameter-scan n 1 3
try 'touch ran' --runs 10
try 'touch ran' --export-json out.json
try 'touch ran' -N
try 'touch ran' -m 10
try 'touch ran' --higher-is-better
try 'touch ran' --metric rss --unit bytes
try hystory
try compare --to go runs.json
try convert --export go=out runs.json
try 'touch ran' 'true' --name one
try 'touch ran' --rounds 8 --width 3%
try 'touch ran' --rounds 0
try 'touch ran' --rounds 1.5
try 'touch ran' --max-rounds 5
try 'touch ran' --section speed
try 'touch ran' --export json=out
try 'touch ran' --export out.md
try 'touch ran' --export go=nowhere/out
try 'touch ran' --svg nowhere/out.svg
try 'touch ran' --svg .
try 'touch ran' --export xml=out
try 'touch ran' --export hyperfine
try 'touch ran' --export hyperfine=
try 'touch ran' --confidence 100%
try 'touch ran' --confidence 20%
try 'touch ran' --min-effect fast
try 'touch ran' --fail-over -5%
try 'touch ran' --message 'no log'
try 'touch ran' --build make
try 'touch ran' --candidate HEAD
try 'touch ran' --same-output --show-output
try 'touch ran' --metric speed --show-output
try 'touch ran' --keep-output out --show-output
try 'touch ran' --json --svg -
try 'touch ran' --timeout soon
try 'touch ran' --memory much
try 'touch ran' --cpus -1
try 'touch ran' --cpus 0
try 'touch ran' --into page.md
try 'touch ran' --log notes.txt
try 'touch ran' --ladder steps.toml
try --ladder steps.toml --suite suite.toml
try --suite suite.toml --svg chart.svg
try --ladder steps.toml --log PERF.md
try --ladder steps.toml --against HEAD
try --suite suite.toml --name x
try --suite suite.toml --build make
try --suite suite.toml -m text
try --fail-ower 5% 'touch ran'
try calibrate 'touch ran' 'touch ran'
ls
