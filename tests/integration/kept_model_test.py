"""Model directories that earlier programs have written: `dslide predict` reads them, or says why not.

usage: kept_model_test.py --bin-dir DIR [unittest arguments]

docs/understand/formats.md says what is kept in tests/golden/formats, and by which programs it was
written.
"""

import json
import pathlib
import shutil

import processes

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
# Of this format's first version; the second one was written before texts were under a seal.
KEPT = ("model-dir-v1", "model-dir-v1-without-files")
OK, USAGE = 0, 2


def crc32c(content):
    """The checksum of dslide's files: CRC-32C."""
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class KeptModelTest(processes.ProcessTest):
    def copy_of(self, kept):
        directory = self.directory / kept
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(GOLDEN / "formats" / kept, directory)
        return directory

    def predict(self, directory):
        return self.start("dslide", "predict", "--model-dir", directory, "--data",
                          GOLDEN / "points.txt", "-k", 3, "--threads", 1, "-o", "json",
                          environment={"DSLIDE_MAX_ISA": "sse4"}).finish()

    def assert_refused(self, directory, *words):
        refused = self.predict(directory)
        self.assertNotEqual(refused.code, OK)
        self.assertEqual(refused.stdout, "")
        for word in words:
            self.assertIn(word, refused.stderr)
        return refused

    def test_says_what_the_program_that_wrote_it_said(self):
        for kept in KEPT:
            with self.subTest(kept):
                finished = self.predict(self.copy_of(kept))
                self.assert_ended(finished, OK)
                self.assertEqual("earlier version" in finished.stderr, "without" in kept)
                said = [json.loads(line) for line in finished.stdout.splitlines()]
                lines = (GOLDEN / "formats" / f"{kept}.jsonl").read_text().splitlines()
                expected = [json.loads(line) for line in lines]
                self.assertEqual(len(said), len(expected))
                for one, other in zip(said, expected):
                    self.assertEqual(one["input"], other["input"])
                    self.assertEqual([guess["label"] for guess in one["predictions"]],
                                     [guess["label"] for guess in other["predictions"]])
                    for guess, earlier in zip(one["predictions"], other["predictions"]):
                        self.assertAlmostEqual(guess["logit"], earlier["logit"], places=5)

    def test_another_version_of_its_origin_is_refused(self):
        for version in (0, 2):
            directory = self.copy_of("model-dir-v1-without-files")
            path = directory / "dslide.json"
            text = path.read_text()
            self.assertEqual(text.count('"format": 1,'), 1)
            path.write_text(text.replace('"format": 1,', f'"format": {version},'))
            refused = self.assert_refused(directory, str(path), f"format {version}", "knows 1",
                                          "use the version that wrote it")
            self.assertEqual(refused.code, USAGE)

    def test_another_version_of_its_list_of_files_is_refused(self):
        for version in (0, 2):
            directory = self.copy_of("model-dir-v1")
            path = directory / "FILES"
            head, body = path.read_text().rsplit("crc32c ", 1)[0].split("\n", 1)
            self.assertEqual(head, "dslide files 1")
            text = f"dslide files {version}\n{body}"
            path.write_text(f"{text}crc32c {crc32c(text.encode()):08x}\n")
            self.assert_refused(directory, str(path), f"format {version}", "reads format 1",
                                "use the version that wrote it")


if __name__ == "__main__":
    processes.main()
