"""What tests of docs and examples share: a place to run commands in, as if it were the root of the project."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 60
LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "SLURM_PROCID", "SLURM_NTASKS")


def build_dir():
    """The build directory, taken off the command line so that unittest does not see it."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} BUILD_DIR")
    return pathlib.Path(sys.argv.pop(1)).resolve()


class Place:
    """A fresh directory with `build` and `examples` in it."""

    def __init__(self, build):
        self._directory = tempfile.TemporaryDirectory(prefix="stoker-docs-")
        self.path = pathlib.Path(self._directory.name) / "root"
        self.path.mkdir()
        (self.path / "build").symlink_to(build)
        (self.path / "examples").symlink_to(ROOT / "examples")
        self.env = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
        self.env.update(HOME=self._directory.name, XDG_CACHE_HOME=self._directory.name + "/cache", LC_ALL="C.UTF-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._directory.cleanup()

    def run(self, command):
        """A shell command; its output has both streams."""
        return subprocess.run(["bash", "-c", command], cwd=self.path, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
                              check=False)

    def make_blobs(self, pattern, count=600):
        done = self.run(f"build/stoker run -q --plugin build/examples/op_blobs.so "
                        f"-e 'blobs({count}) | write_tfrecord(\"{pattern}\", shards=3)'")
        assert done.returncode == 0, done.stdout
