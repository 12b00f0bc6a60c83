"""Model directories of earlier programs: `dslide predict` reads them, or says why not.

docs/understand/formats.md says what is kept in tests/golden/formats, and by which programs it was
written.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from process_case import ProcessCase
from processes import Finished, assert_ended

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
KEPT = "model-dir-v1"
OK = 0


def crc32c(content: bytes) -> int:
    """The checksum of dslide's files: CRC-32C."""
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class KeptModelTest(ProcessCase):
    def copy(self, sealed: bool = True) -> pathlib.Path:
        """The kept directory; without its list of files, whose removal trusts them as they are."""
        directory = self.directory / KEPT
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(GOLDEN / "formats" / KEPT, directory)
        if not sealed:
            (directory / "FILES").unlink()
        return directory

    def predict(self, directory: pathlib.Path) -> Finished:
        return self.start("dslide", "predict", "--model-dir", directory, "--data",
                          GOLDEN / "points.txt", "-k", 3, "--threads", 1, "-o", "json",
                          environment={"DSLIDE_MAX_ISA": "sse4"}).finish()

    def assert_refused(self, directory: pathlib.Path, *words: str) -> Any:
        refused = self.predict(directory)
        assert refused.code != OK
        assert refused.stdout == ""
        for word in words:
            assert word in refused.stderr
        return refused

    def test_says_what_the_program_that_wrote_it_said(self) -> None:
        for sealed in (True, False):
            finished = self.predict(self.copy(sealed))
            assert_ended(finished, OK)
            assert ("has no list of its files" in finished.stderr) == (not sealed)
            said = [json.loads(line) for line in finished.stdout.splitlines()]
            lines = (GOLDEN / "formats" / f"{KEPT}.jsonl").read_text().splitlines()
            expected = [json.loads(line) for line in lines]
            assert len(said) == len(expected)
            for one, other in zip(said, expected):
                assert one["input"] == other["input"]
                assert [guess["label"] for guess in one["predictions"]] == [
                    guess["label"] for guess in other["predictions"]]
                for guess, earlier in zip(one["predictions"], other["predictions"]):
                    assert guess["logit"] == pytest.approx(earlier["logit"], abs=1e-5)

    def test_another_version_of_its_list_of_files_is_refused(self) -> None:
        for version in (0, 2):
            directory = self.copy()
            path = directory / "FILES"
            head, body = path.read_text().rsplit("crc32c ", 1)[0].split("\n", 1)
            assert head == "dslide files 1"
            text = f"dslide files {version}\n{body}"
            path.write_text(f"{text}crc32c {crc32c(text.encode()):08x}\n")
            self.assert_refused(directory, str(path), f"format {version}", "reads format 1",
                                "use the version that wrote it")
