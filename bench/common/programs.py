"""Starts the project's programs for a benchmark and ends them in every case."""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Processes with deadlines, that die with their parent.
sys.path.insert(0, str(ROOT / "tools/common"))

import processes  # noqa: E402

SKIPPED = processes.SKIPPED


class Skipped(Exception):
    """A program that said why it cannot do what was asked here."""



class Programs(contextlib.ExitStack):
    """The programs in `bin_dir`; those that were started end with the block."""

    def __init__(self, bin_dir):
        super().__init__()
        processes.use_bin_dir(bin_dir)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dslide-bench-"))
        self.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._started = 0

    def start(self, program, *arguments, wrapper=()):
        """Working directory is one of its own, so `arguments` hold absolute paths."""
        self._started += 1
        directory = self.directory / f"process-{self._started}"
        directory.mkdir()
        environment = {"OMP_WAIT_POLICY": "passive"}
        process = processes.Process(program, arguments, directory, environment, wrapper)
        self.callback(process.kill)
        return process

    def run_json(self, program, *arguments, within, wrapper=()):
        """Runs it to its end and returns the JSON object of its last line."""
        return finish_json(self.start(program, *arguments, wrapper=wrapper), within)

    def data(self, shape, within=600):
        """{"train", "eval"}: paths of generated data; `shape` holds flags of `dslide-bench data`."""
        directory = os.environ.get("DSLIDE_BENCH_DATA_DIR", ROOT / "data/bench")
        return self.run_json("dslide-bench", "data", "--data-dir", directory, *shape, within=within)


def finish_json(process, within):
    finished = process.finish(within)
    if finished.code == SKIPPED:
        raise Skipped(finished.stderr.strip().splitlines()[-1])
    if finished.code != 0:
        raise RuntimeError(str(finished))
    result = finished.json()
    # Reaped, so that its processor time counts as that of a child.
    process.kill()
    return result
