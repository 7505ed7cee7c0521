# A line without end is taken in parts; no word is lost, and the line stays one.
printf 'big B IH1 G\n' >small.dict
python3 -c 'print("big " * 700000 + "\nbig")' >long.txt
"$STOKER" g2p -q -l small.dict --format lines <long.txt >lines.txt
wc -l <lines.txt
grep -o 'B IH1 G' lines.txt | wc -l
"$STOKER" g2p -q -l small.dict <long.txt | sort | uniq -c | sed 's/^ *//'
"$STOKER" g2p -q -l small.dict --format json <long.txt | python3 -c '
import json, sys
for line in sys.stdin:
    tokens = json.loads(line)["tokens"]
    print(len(tokens), all(t["at"] == 4 * i for i, t in enumerate(tokens)))'
