# A way that cannot run is listed with its reason.
"$STOKER" compare-lazy -q -e 'range(300) | batch(100)' --rounds 1 --json >out
python3 -c 'import json; [print(w["name"], w["ran"], w.get("why_not", "")) for w in json.load(open("out"))["ways"]]'
"$STOKER" compare-lazy -q -e 'range(300) | batch(100)' --rounds 1 --order-seed 7 >out
grep -c 'cannot run' out
grep -o 'order-seed 7' out
sed -n 's/^\(lazy\|stored, [a-z]*\)  .*/\1/p' out
