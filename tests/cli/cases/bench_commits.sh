# A range of commits: what is wrong is told before anything is built or run, then a table commit by commit.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE=2026-08-14T10:00:00Z
export GIT_COMMITTER_DATE=2026-08-14T10:00:00Z GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A
export GIT_COMMITTER_EMAIL=a@b GIT_CEILING_DIRECTORIES=$PWD/..
try() {
    printf -- '--- %s\n' "$*"
    "$STOKER" bench "$@" 2>&1
    echo "exit $?"
}
try --commits HEAD~1.. 'touch ran'
git init -q -b main . && git commit -q --allow-empty -m empty
for i in 0 1 2 3 4; do
    echo "# $i" > app
    echo "echo '{\"seconds\": $((i < 2 ? 10 : 12))e-1}'" >> app
    test $i != 1 || echo exit 1 >> app
    git add app && git commit -qm "version $i | <$i>"
done
try --commits main 'touch ran'
try --commits main~2...main 'touch ran'
try --commits nope..main 'touch ran'
try --commits main..main~2 'touch ran'
try --commits main~2..main
try --commits main~2..main --against main 'touch ran'
try --commits main~2..main --candidate main 'touch ran'
try --commits main~2..main --ladder steps.toml
try --commits main~2..main --message why 'touch ran'
try --commits main~2..main --keep-output out 'touch ran'
try --commits main~2..main --svg out.svg 'touch ran'
try --commits main~2..main --every 0 'touch ran'
try --commits main~2..main --suite nowhere.toml
try --commits main~2..main --log notes.txt 'touch ran'
try --rebuild 'touch ran'
try --every 2 'touch ran'
try --build make 'touch ran'
ls
where() { sed "s|machine: .*|machine: (this one)|; s|in /.*/builds|in (the cache)/builds|"; }
try --commits main~4.. -q --seed 1 --rounds 10 --warmup 0 --metric seconds 'sh app' | where
try --commits main~4.. -q --seed 1 --rounds 10 --warmup 0 --metric seconds 'sh app' --fail-over 5% --log ../PERF.md | where
try --commits main~4.. -q --seed 1 --rounds 10 --warmup 0 --metric seconds 'sh app' --log ../PERF.md | where
git status --short
git worktree list | wc -l
