# Two ranks stop, three go on: over all of them every sample comes once in each epoch.
p='range(103) | shuffle(seed=9) | shard() | batch(4) | repeat(2) | print'
for rank in 0 1; do
    "$STOKER" run -q -e "$p" --rank $rank --world 2 --steps 5 --checkpoint ck$rank
done >all
for rank in 0 1 2; do
    "$STOKER" run -q -e "$p" --rank $rank --world 3 --resume ck0
done >>all
wc -l <all
sort all | uniq -c | awk '{ print $1 }' | sort | uniq -c | tr -s ' '
