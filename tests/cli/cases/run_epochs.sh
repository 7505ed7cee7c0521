# The wait of each epoch, in few figures for any number of them.
"$STOKER" run -e 'range(10) | batch(4) | repeat(3)' --threads 2 --json >out
python3 - <<END
import json
x = json.load(open("out"))
waits = x["epoch_wait_s"]
print(x["epochs"], sorted(waits), 0 <= waits["median"] <= waits["max"], 0 <= waits["first"] <= waits["max"])
END
"$STOKER" run -q -e 'range(0) | batch(4)' --json | grep -o '"epochs":0,"epoch_wait_s":null'
"$STOKER" run -q -e 'range(10) | batch(4) | repeat(5)' --steps 8 --checkpoint ck
"$STOKER" run -q -e 'range(10) | batch(4) | repeat(5)' --resume ck --json | grep -o '"epochs":[0-9]*'
