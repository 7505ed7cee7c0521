# Outliers on both sides do not switch a verdict off; slow runs of one side are a verdict of their own. Both fail a gate.
try() {
    printf -- '--- %s\n' "$*"
    (cd "$TESTDATA/bench" && "$STOKER" bench "$@" 2>&1)
    echo "exit $?"
}
try compare spike.json
try compare --fail-over 5% spike.json
try compare bimodal.json
try compare --fail-over 5% bimodal.json
try compare --fail-over 50% bimodal.json
cd "$TESTDATA/bench" && "$STOKER" bench compare --json bimodal.json | grep -o '"verdict":"[a-z-]*"\|"mean_ratio":[0-9.]\{5\}'
