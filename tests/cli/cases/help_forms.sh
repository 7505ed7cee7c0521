# All ways to ask give the same text on standard output, in 80 columns.
for command in run plan compare-lazy ops inspect completion help; do
    "$STOKER" help $command >a
    "$STOKER" $command --help >b
    "$STOKER" $command -h >c
    cmp a b && cmp a c && echo "$command: same"
    awk 'length > 80' a
done
"$STOKER" help >a
"$STOKER" -h >b
cmp a b && echo "program: same"
awk 'length > 80' a
"$STOKER" --version | sed 's/[0-9][0-9.]*$/N/'
