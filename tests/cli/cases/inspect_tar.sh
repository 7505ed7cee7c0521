# Archives: whole, compressed, damaged, and what is none.
"$STOKER" run -q -e 'range(40) | write_webdataset("a.tar", value="cls")'
python3 - <<END
import gzip, io, tarfile
with tarfile.open("b.tar", "w", format=tarfile.PAX_FORMAT) as tar:
    for i in range(3):
        for extension, data in (("png", b"P" * i), ("JPG", b"J" * 9), ("2d.txt", b"text"), ("w", b"%.1f" % (i / 2))):
            if extension != "2d.txt" or i != 1:
                info = tarfile.TarInfo("d/%d.%s" % (i, extension))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
data = open("a.tar", "rb").read()
open("a.tar.gz", "wb").write(gzip.compress(data, mtime=0))
open("bad.tar", "wb").write(data[:5120] + b"#" + data[5121:20000])
open("none.tar", "wb").write(b"no archive " * 100)
END
"$STOKER" inspect --verify a.tar b.tar a.tar.gz
echo "exit $?"
"$STOKER" inspect --verify bad.tar
echo "exit $?"
"$STOKER" inspect none.tar
echo "exit $?"
"$STOKER" inspect --json b.tar
# What it says reads the file.
call=$("$STOKER" inspect --json b.tar | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["webdataset"])')
"$STOKER" run -q -e "$call | print"
