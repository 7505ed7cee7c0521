# A resumed run ends with the digest of the whole run: 1 line when all are equal.
P='range(1000) | shuffle(seed=1) | filter("value % 3 > 0") | batch(16) | repeat(2)'
{
    $STOKER run -q --digest -e "$P"
    for k in 1 5 41; do
        $STOKER run -q --digest -e "$P" --steps $k --checkpoint ck > /dev/null
        $STOKER run -q --digest -e "$P" --resume ck --threads 3
    done
} | sort | uniq | wc -l
