# The registry as JSON: every op and option is told completely, and every example is a pipeline that plans.
"$STOKER" ops --json >all
"$STOKER" ops shuffle --json
python3 - <<END
import json
ops = json.load(open("all"))
for op in ops:
    for key in "name group since summary role flags options".split():
        assert op[key] is not None, (op["name"], key)
    for option in op["options"]:
        assert set(option) == {"name", "kind", "required", "default", "min", "max", "choices", "help", "named"}, option
        assert option["help"], (op["name"], option["name"])
        assert option["kind"] != "enum" or option["required"] or option["default"] in option["choices"], option
print([op["name"] for op in ops] == sorted(op["name"] for op in ops))
END
for op in $(python3 -c 'import json; print(*[x["name"] for x in json.load(open("all"))])'); do
    "$STOKER" ops $op >/dev/null || echo "$op: exit $?"
done
