# The help of bench and of what stands below it, in 80 columns; both ways to ask give the same text.
"$STOKER" bench --help
for name in calibrate history compare convert; do
    echo "--- $name"
    "$STOKER" bench $name --help
done >below
cat below
for name in '' calibrate history compare convert; do
    "$STOKER" help bench $name >a
    "$STOKER" bench $name -h >b
    cmp a b && echo "bench $name: same"
    awk 'length > 80' a
done
