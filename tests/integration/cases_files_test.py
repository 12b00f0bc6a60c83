"""Directories, disks, streams and archives as users met them in similar systems.

A model in use, or that may not be read, is not lost; a full disk is no silent cluster; what was not
written is no success.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import zipfile

import pytest
from process_case import ProcessCase
from processes import Finished, Process, assert_ended, bin_dir
from small_disk import CannotMount, SmallDisk

OK, FAILED, USAGE, DATA_LOSS, DISK_FULL, INTERRUPTED = 0, 1, 2, 5, 6, 130
READER_GONE = 128 + signal.SIGPIPE
POINTS = "4 6 6\n0,1 0:1 1:1\n1 1:1 2:1\n2,3 3:1 4:1\n3 4:1 5:1\n"
NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user or to mount")


def digests(directory: pathlib.Path) -> dict[str, str]:
    """What is in a directory, but for what a writer has beside it."""
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(directory.rglob("*")) if path.is_file() and path.name != "LOCK"
            and ".writing" not in path.parts}


class FilesCase(ProcessCase):
    def set_up(self) -> None:
        self.data = self.directory / "ok.txt"
        self.data.write_text(POINTS)
        self.model = self.directory / "m"

    def train(self, *more: object, code: int = OK, says: str = "") -> Finished:
        finished = self.run_dslide("train", "-q", "--data", self.data, "--epochs", 1,
                                   "--model-dir", self.model, *more)
        assert_ended(finished, code, says)
        return finished

    def read(self) -> str:
        """What the model predicts; reading changes nothing."""
        before = digests(self.model)
        finished = self.run_dslide("predict", "--model-dir", self.model, "--data", self.data)
        assert_ended(finished, OK)
        assert digests(self.model) == before
        return finished.stdout

    def start_training(self, *more: object) -> Process:
        training = self.start("dslide", "train", "--data", self.data, "--epochs", 10**6,
                              "--patience", 0, "--model-dir", self.model, *more)
        training.wait_for_stderr("^Training")
        return training

    def shell(self, line: str, code: int) -> Finished:
        """A line for bash in which $d is the folder of the programs."""
        ended = subprocess.run(["bash", "-c", line], cwd=self.directory, text=True, check=False,
                               capture_output=True, env={**os.environ, "d": str(bin_dir())})
        finished = Finished(line, ended.returncode, ended.stdout, ended.stderr, 0, self.directory)
        assert finished.code == code, finished
        return finished

    def small_disk(self) -> pathlib.Path:
        try:
            return self.enter(SmallDisk(self.directory / "disk", megabytes=1)).path
        except CannotMount as why:
            pytest.skip(str(why))


class ModelDirectoryTest(FilesCase):
    @pytest.mark.parametrize("more", ["--overwrite", "--resume"])
    def test_a_directory_has_one_writer_and_any_number_of_readers(self, more: str) -> None:
        assert_ended(self.start_training().stop(signal.SIGINT), INTERRUPTED)
        before, said = digests(self.model), self.read()
        first = self.start_training(more)
        for other in ("--overwrite", "--resume"):
            self.train(other, code=USAGE, says=f"written by process {first.pid} on host")
        readers = [self.start("dslide", "eval", "--model-dir", self.model, "--data", self.data)
                   for _ in range(3)]
        assert self.read() == said
        for reader in readers:
            assert_ended(reader.finish(), OK)
        first.kill()  # what it has written is no model yet, and what was there still is
        assert self.read() == said and digests(self.model) == before
        assert_ended(self.start_training(more).stop(signal.SIGINT), INTERRUPTED)
        self.read()
        assert not list(self.model.glob(".*")) and not (self.model / "LOCK").exists()

    def test_a_new_directory_has_one_writer(self) -> None:
        first = self.start_training()
        self.train(code=USAGE, says="is being written by")
        assert_ended(self.run_dslide("predict", "--model-dir", self.model), USAGE,
                     f"holds no model yet: process {first.pid} on host")
        assert_ended(first.stop(signal.SIGINT), INTERRUPTED)
        self.read()

    @as_root
    def test_a_read_only_disk_is_read_and_not_written(self) -> None:
        self.model = self.small_disk() / "m"
        self.train()
        subprocess.run(["mount", "-o", "remount,ro", self.model.parent], check=True)
        self.read()
        for more in ("--overwrite", "--resume"):
            self.train(more, code=USAGE, says="Read-only file system")

    def test_resuming_trains_further(self) -> None:
        self.train()
        for _ in range(2):
            trained = self.train("--resume", "-o", "json").json()
            assert (trained["epochs"], trained["steps"] > 0) == (1, True)

    @pytest.mark.parametrize(("names", "refusal"), [
        (["model.json", "features.tsv.partial-7", "shard-0/images/x", "coordinator/x"], ""),
        ([".writing/model.json", "LOCK"], ""),
        (["model.json", "thesis.tex"], r"files that are no model \(thesis\.tex\)"),
        (["shard-notes/x"], r"files that are no model \(shard-notes\)"),
        (["shard-0/images/x", "coordinator/x"], "may be those of a cluster")])
    def test_overwriting_takes_parts_of_a_model_and_nothing_else(
            self, names: list[str], refusal: str) -> None:
        for name in names:
            (self.model / name).parent.mkdir(parents=True, exist_ok=True)
            (self.model / name).write_text("{}")
        before = digests(self.model)
        if before:
            self.train(code=USAGE)
        self.train("--overwrite", code=USAGE if refusal else OK, says=refusal)
        if refusal:
            assert digests(self.model) == before
        else:
            self.read()

    def test_a_training_that_fails_leaves_what_was_there(self) -> None:
        self.model = self.directory / "made" / "m"
        names = self.directory / "features.txt"
        for made in (False, True):
            names.write_text("f0\tx\nf1\nf2\nf3\nf4\nf5\n")
            before = digests(self.model)
            self.train("--overwrite", code=USAGE, says="holds a tab")
            assert digests(self.model) == before and self.model.parent.exists() == made
            names.unlink()
            self.train("--overwrite")

    def test_who_writes_next_ends_what_was_being_put_in_place(self) -> None:
        self.train()
        said = self.read()
        for state in (".ready", ".moving"):
            entries = list(self.model.iterdir())
            (self.model / state).mkdir()
            for entry in entries[state == ".moving":]:
                entry.rename(self.model / state / entry.name)
            if state == ".ready":
                (self.model / "dslide.json").write_text("of the earlier model")
            self.train(code=USAGE, says="holds a model already")
            assert self.read() == said

    def test_a_good_run_says_nothing_on_stderr(self) -> None:
        assert self.train().stderr == ""
        assert self.run_dslide("predict", "--model-dir", self.model, "--data",
                               self.data).stderr == ""


@as_root
class UnreadableTest(FilesCase):
    def set_up(self) -> None:
        # Those of pytest are closed to other users, again with each of its runs.
        self.directory = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        self.directory.chmod(0o755)
        super().set_up()

    def as_nobody(self, program: str, *arguments: object) -> Finished:
        try:
            ended = subprocess.run(
                [bin_dir() / program, *map(str, arguments)], user=NOBODY, group=NOBODY,
                extra_groups=[], cwd="/", text=True, capture_output=True, check=False)
        except PermissionError:
            pytest.skip("the programs lie where another user may not run them")
        return Finished(program, ended.returncode, ended.stdout, ended.stderr, 0, self.directory)

    @pytest.mark.parametrize("closed", ["", "shard-0", "shard-1/images", "dslide.json", "FILES",
                                        "shard-0/images/model.latest/state"])
    def test_what_may_not_be_read_is_not_lost(self, closed: str) -> None:
        self.train("--shards", 2)
        for path in self.model, *self.model.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        where = ["--model-dir", self.model, "--data", self.data]
        assert_ended(self.as_nobody("dslide", "eval", *where), OK)
        (self.model / closed).chmod(0)
        for command in ("predict", "eval"):
            refused = self.as_nobody("dslide", command, *where)
            assert_ended(refused, USAGE, f"{self.model / closed}.*Permission denied.*user {NOBODY}")
            assert "overwrite" not in refused.stderr
        examined = self.as_nobody("dslide", "doctor", "--data-dir", self.model)
        said = examined.stdout + examined.stderr
        assert examined.code in (FAILED, USAGE) and "Permission denied" in said, examined
        assert not any(word in said for word in ("remove", "overwrite", "move catalog")), said

    @pytest.mark.parametrize(("program", "closed"), [
        ("dslide-shard", "images"), ("dslide-shard", "command_log/images"),
        ("dslide-coordinator", "catalog"), ("dslide-coordinator", "jobs")])
    def test_servers_call_it_so_too(self, program: str, closed: str) -> None:
        data = self.directory / "data"
        (data / closed).mkdir(parents=True)
        for path in data, *data.rglob("*"):
            os.chown(path, NOBODY, NOBODY)
        (data / closed).chmod(0)
        ended = self.as_nobody(program, "--listen", "127.0.0.1:0", "--admin", "", "--data-dir",
                               data)
        assert_ended(ended, 4, f"{data / closed}.*Permission denied")
        assert "damaged" not in ended.stderr


class FullDiskTest(FilesCase):
    @as_root
    @pytest.mark.parametrize("kept", [True, False])
    def test_a_training_ends_soon_and_says_where(self, kept: bool) -> None:
        disk = self.small_disk()
        self.shell(f"$d/dslide data gen --output {self.data} --points 2000 --features 2000 "
                   "--labels 2000", OK)
        more = ["--model-dir", disk / "m"] if kept else []
        finished = self.start("dslide", "train", "-q", "--data", self.data, "--epochs", 2, *more,
                              environment={"TMPDIR": str(disk)}).finish(60)
        assert_ended(finished, DISK_FULL, "No space left on device", str(disk), "DISK_FULL")
        assert not list(disk.iterdir())

    def test_an_output_is_checked_and_replaces_no_device_pipe_or_link(self) -> None:
        for command in ("data gen --points 9 --output",
                        "train --data ok.txt --epochs 1 --spec-out"):
            refused = self.shell(f"$d/dslide {command} /dev/full -q", DISK_FULL)
            assert "cannot write /dev/full: No space left on device" in refused.stderr
        (self.directory / "link").symlink_to("target")
        os.mkfifo(self.directory / "pipe")
        gen = "$d/dslide data gen -q --points 99 --output"
        self.shell(f"cat pipe > piped & {gen} pipe && {gen} link && wait", OK)
        assert (self.directory / "link").is_symlink()
        assert stat.S_ISFIFO((self.directory / "pipe").stat().st_mode)
        written = (self.directory / "target").read_text()
        assert written.startswith("99 ") and (self.directory / "piped").read_text() == written
        self.shell(f"echo before > out; {gen} /dev/stdout >> out", OK)
        assert (self.directory / "out").read_text().startswith("before\n" + written)


class StreamTest(FilesCase):
    def test_a_result_that_was_not_written_is_no_success(self) -> None:
        self.train()
        for command in ("data info ok.txt", "version -o json", "--help", "train --help",
                        "data gen --points 9 --output g.txt", "predict --model-dir m --data ok.txt",
                        "eval --model-dir m --data ok.txt", "doctor --data-dir m",
                        "train -q --data ok.txt --epochs 1 -o json"):
            for stdout, code, why in (("/dev/full", DISK_FULL, "No space left on device"),
                                      ("&-", FAILED, "Bad file descriptor")):
                refused = self.shell(f"$d/dslide {command} >{stdout}", code)
                assert f"cannot write the result to stdout: {why}" in refused.stderr, refused
        for command in ("dslide-shard --print-config", "dslide-coordinator --help",
                        "dslide-shard --version"):
            assert "cannot write" in self.shell(f"$d/{command} >/dev/full", FAILED).stderr

    def test_no_file_takes_the_place_of_a_closed_stream(self) -> None:
        self.shell("$d/dslide train --data ok.txt --epochs 1 --model-dir m <&- >&- 2>&-", FAILED)
        self.read()

    def test_commands_end_soon_and_quietly_after_their_reader(self) -> None:
        self.train()
        address = self.start_cluster(shards=1).address
        (self.directory / "many.txt").write_text("20000 6 6\n" + "0 0:1 1:1\n" * 20000)
        for command in (f"top --interval 100ms --cluster {address} -o json",
                        f"status --watch --interval 100ms --cluster {address} -o json",
                        "predict --model-dir m --data many.txt",
                        "predict --model-dir m --data many.txt -o json"):
            ended = self.shell(f"timeout 60 $d/dslide {command} | head -1; exit ${{PIPESTATUS[0]}}",
                               READER_GONE)
            assert len(ended.stdout.splitlines()) == 1 and ended.stderr == "", ended


class ArchiveTest(FilesCase):
    """What users see; which bytes are refused is tested beside the code (data_file_test.cc)."""

    def test_cut_damaged_and_foreign_files_are_refused_by_name(self) -> None:
        points = POINTS.encode()
        member = gzip.compress(points)
        with zipfile.ZipFile(self.directory / "packed", "w") as archive:
            archive.write(self.data, "ok.txt")
        for name, content, code, why in (
                ("cut.gz", member + member[:9], DATA_LOSS, "truncated or corrupt"),
                ("crc.gz", member[:-8] + b"four" + member[-4:], DATA_LOSS, "incorrect data check"),
                ("after.gz", member + b"more", DATA_LOSS, "what follows the last gzip member"),
                ("cut.xz", lzma.compress(points)[:-9], DATA_LOSS, "truncated or corrupt"),
                ("cut.bz2", bz2.compress(points)[:-9], DATA_LOSS, "truncated or corrupt"),
                ("a.zip", (self.directory / "packed").read_bytes(), USAGE, "is a zip archive"),
                ("a.lzma", lzma.compress(points, lzma.FORMAT_ALONE), USAGE, "xz -d"),
                ("a.txt", POINTS.encode("utf-16"), USAGE, "UTF-16: save it as UTF-8")):
            path = self.directory / name
            path.write_bytes(content)
            assert_ended(self.run_dslide("data", "info", path), code, f"{path}.*{why}")
        self.data = self.directory / "cut.gz"
        self.train(code=DATA_LOSS, says="truncated or corrupt")
        self.data = self.directory / "ok.txt"
        self.data.write_bytes(bz2.compress(points))
        self.train()

    def test_a_byte_order_mark_is_part_of_nothing(self) -> None:
        for name, text in {"ok.txt": POINTS, "labels.txt": "cat\ndog\nowl\nfox\nant\nbee\n",
                           "features.txt": "a\nb\nc\nd\ne\nf\n", "groups": "1\n1\n2\n2\n",
                           "query": "a b\n", "server.conf": "listen = 127.0.0.1:0\n"}.items():
            (self.directory / name).write_text(text, encoding="utf-8-sig")
        self.train("--validation-group", self.directory / "groups")
        said = self.shell("$d/dslide predict --model-dir m -k 1 -o json < query", OK)
        assert "unknown_words" not in said.json()
        said = self.shell("$d/dslide predict --model-dir m -k 6 --data ok.txt", OK)
        assert "\n  1. " in said.stdout and "\ufeff" not in said.stdout
        self.shell("$d/dslide-shard --check-config --config server.conf", OK)
