# Another policy goes on at the exact next sample, either way, with the digest of the whole run: 1 line when all are equal.
P='range(100) | shuffle(seed=1) | batch(8) | skip(1) | repeat(2)'
{
    $STOKER run -q --digest -e "$P"
    for k in 1 5 13; do
        $STOKER run -q --digest -e "$P" --steps $k --checkpoint ck > /dev/null
        $STOKER run -q --digest -e "$P" --resume ck --on-error skip
        $STOKER run -q --digest -e "$P" --resume ck --on-error quarantine=bad.jsonl --threads 3
        $STOKER run -q --digest -e "$P" --on-error skip --steps $k --checkpoint ck > /dev/null
        $STOKER run -q --digest -e "$P" --resume ck
    done
} | sort | uniq | wc -l
