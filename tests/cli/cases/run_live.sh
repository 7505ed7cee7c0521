# On a terminal there is a live line, and it is gone at the end; --quiet has none.
cat >on_terminal.py <<END
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
try:
    while piece := os.read(terminal, 4096):
        seen += piece
except OSError:
    pass
os.waitpid(pid, 0)
lines = seen.split(b"\r")
print("live" if any(b"samples/s  batch" in line for line in lines) else "no live line")
print("summary" if b"samples in 100 batches" in seen else "no summary")
print("cleared" if not seen or lines[-1] == b"\n" else lines[-1])
END
python3 on_terminal.py "$STOKER" run -e 'range(100) | batch(1)' --step-time 10ms
python3 on_terminal.py "$STOKER" run --quiet -e 'range(100) | batch(1)' --step-time 1ms
