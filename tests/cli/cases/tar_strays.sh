# Files of an archive that belong to no sample are counted: hidden ones, and names without an extension.
python3 - <<END
import gzip, io, tarfile
with tarfile.open("a.tar", "w") as tar:
    tar.addfile(tarfile.TarInfo("__meta__"))
    for name in ("d/x.cls", ".hidden.cls", "d/.hidden.cls", "README", "d/y.cls"):
        info = tarfile.TarInfo(name)
        info.size = 1
        tar.addfile(info, io.BytesIO(b"7"))
data = open("a.tar", "rb").read()
open("a.tar.gz", "wb").write(gzip.compress(data, mtime=0))
END
"$STOKER" run -q -e 'webdataset("a.tar", v=int64(from="cls")) | print' --cache-dir index
"$STOKER" run -q -e 'webdataset("a.tar", v=int64(from="cls")) | print' --cache-dir index
"$STOKER" run -q -e 'webdataset("a.tar.gz", v=int64(from="cls")) | repeat(2) | print'
"$STOKER" inspect a.tar
"$STOKER" inspect --json a.tar.gz
