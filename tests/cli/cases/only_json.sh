# only= takes lists as other tools write them, and names the line of what is none.
"$STOKER" run -q -e 'range(4) | write_webdataset("t.tar", value="cls")'
python3 - <<END
import json
lines = [{"record": 2, "file": "t.tar", "bytes": 1}, {"file": "t.tar", "record": 0, "bytes": 1, "error": "x\u00e9"}]
with open("spaces.jsonl", "w", newline="\r\n") as out:
    out.write("\n".join(json.dumps(line) for line in lines) + "\n\n")
json.dump(lines, open("array.json", "w"), indent=2)
json.dump([{"file": "other.txt", "record": 0}], open("other.json", "w"))
open("torn.jsonl", "w").write(json.dumps(lines[0]) + "\n{\"file\": \"t.tar\", \"record\":\n")
END
"$STOKER" run -q -e 'webdataset("t.tar", v=int64(from="cls"), only="spaces.jsonl") | print'
"$STOKER" run -q -e 'webdataset("t.tar", v=int64(from="cls"), only="array.json") | print'
for list in other.json torn.jsonl t.tar; do
    "$STOKER" run -q -e "webdataset(\"t.tar\", v=int64(from=\"cls\"), only=\"$list\") | print"
    echo "exit $?"
done
