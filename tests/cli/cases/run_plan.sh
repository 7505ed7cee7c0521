# The plan names every op; as JSON it is one object.
"$STOKER" plan -e 'range(10) | shuffle(seed=1) | batch(4)' --threads 1 --memory 64M >text
for op in range shuffle batch; do grep -c "$op" text | sed 's/[1-9][0-9]*/found/'; done
"$STOKER" plan -e 'range(10) | shuffle(seed=1) | batch(4)' --json | python3 -c 'import json, sys; print(type(json.load(sys.stdin)).__name__)'
