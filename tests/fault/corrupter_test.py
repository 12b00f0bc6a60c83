"""Each kind of damage changes what it says, where it says, and can be undone.

usage: corrupter_test.py [unittest arguments]
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import corrupter
from corrupter import Corrupter, NothingToDamage, file_kind, files_of

SEEDS = range(40)


class CorrupterTest(unittest.TestCase):
    def setUp(self):
        self.parent = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.directory = self.parent / "victim"
        source = random.Random(5)
        for name, size in (("CURRENT", 16), ("latest/MANIFEST-000005", 300),
                           ("latest/000008.sst", 3 * 4096 + 77), ("latest/000009.sst", 9000),
                           ("latest/000004.log", 0), ("model.json", 50)):
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.randbytes(size))
        self.before = self.content()

    def content(self):
        return {str(path): (self.directory / path).read_bytes()
                for path in files_of(self.directory)}

    def changed(self):
        after = self.content()
        return {name for name in self.before.keys() | after.keys()
                if self.before.get(name) != after.get(name)}

    def each_seed(self, kind, **arguments):
        """(record, bytes before, bytes after) of one damage for each of many seeds."""
        for seed in SEEDS:
            with self.subTest(seed=seed):
                subject = Corrupter(self.directory, seed, [kind], **arguments)
                record = subject.corrupt()
                self.assertEqual(record["kind"], kind)
                yield record, self.before[record["file"]], self.content().get(record["file"])
                subject.undo()
                self.assertEqual(self.content(), self.before)

    def test_flip_changes_the_one_bit_that_it_names(self):
        for record, before, after in self.each_seed("flip"):
            expected = bytearray(before)
            expected[record["offset"]] ^= 1 << record["bit"]
            self.assertEqual(after, expected)
            self.assertEqual(self.changed(), {record["file"]})

    def test_truncate_keeps_the_bytes_before_its_offset(self):
        for record, before, after in self.each_seed("truncate"):
            self.assertEqual(after, before[:record["offset"]])
            self.assertLess(len(after), len(before))
            self.assertEqual(record["cut_bytes"], len(before) - len(after))

    def test_zero_page_clears_an_aligned_page(self):
        for record, before, after in self.each_seed("zero_page"):
            offset, size = record["offset"], record["zeroed_bytes"]
            self.assertEqual(offset % corrupter.PAGE_BYTES, 0)
            self.assertEqual(size, min(corrupter.PAGE_BYTES, len(before) - offset))
            self.assertEqual(after, before[:offset] + bytes(size) + before[offset + size:])
            self.assertNotEqual(after, before)

    def test_swap_exchanges_two_files_of_one_kind_where_there_are(self):
        for record, before, after in self.each_seed("swap", file_kinds=["sst"]):
            other = record["with"]
            self.assertEqual(self.changed(), {record["file"], other})
            self.assertEqual(after, self.before[other])
            self.assertEqual(self.content()[other], before)

    def test_swap_takes_files_of_another_directory(self):
        other = self.parent / "other"
        (other / "latest").mkdir(parents=True)
        (other / "latest/000123.sst").write_bytes(b"older rows")
        for record, _, after in self.each_seed("swap", other=other):
            self.assertEqual(record["file_kind"], "sst")
            self.assertEqual(after, b"older rows")
            self.assertEqual(self.changed(), {record["file"]})

    def test_missing_removes_one_file(self):
        for record, _, after in self.each_seed("missing"):
            self.assertIsNone(after)
            self.assertEqual(self.changed(), {record["file"]})

    def test_append_adds_to_the_end(self):
        for record, before, after in self.each_seed("append"):
            self.assertEqual(record["offset"], len(before))
            self.assertEqual(len(after), len(before) + record["appended_bytes"])
            self.assertTrue(after.startswith(before))

    def test_every_damage_changes_something_and_all_kinds_and_files_occur(self):
        seen = set()
        for seed in range(300):
            subject = Corrupter(self.directory, seed)
            record = subject.corrupt()
            self.assertTrue(self.changed(), record)
            seen |= {record["kind"], record["file_kind"]}
            subject.undo()
        self.assertLessEqual(
            {*corrupter.KINDS, "sst", "manifest", "current", "wal", "metadata"}, seen)

    def test_several_damages_are_undone_together(self):
        subject = Corrupter(self.directory, 3)
        records = [subject.corrupt() for _ in range(10)]
        self.assertEqual([record["number"] for record in records], list(range(10)))
        subject.undo()
        self.assertEqual(self.content(), self.before)

    def test_equal_seeds_do_equal_damage(self):
        def run(seed):
            subject = Corrupter(self.directory, seed)
            records = [subject.corrupt() for _ in range(10)]
            content = self.content()
            subject.undo()
            return records, content

        self.assertEqual(run(11), run(11))
        self.assertNotEqual(run(11), run(12))

    def test_the_other_name_of_a_hard_link_stays_whole(self):
        link = self.parent / "link"
        os.link(self.directory / "latest/000008.sst", link)
        subject = Corrupter(self.directory, 1, ["flip"], ["sst"])
        while subject.corrupt()["file"] != "latest/000008.sst":
            pass
        self.assertEqual(link.read_bytes(), self.before["latest/000008.sst"])

    def test_nothing_to_damage_is_said(self):
        with self.assertRaisesRegex(NothingToDamage, "options"):
            Corrupter(self.directory, 1, file_kinds=["options"]).corrupt()
        # The only write-ahead log is empty: no bit of it can be flipped.
        with self.assertRaises(NothingToDamage):
            Corrupter(self.directory, 1, ["flip"], ["wal"]).corrupt()

    def test_file_kinds(self):
        for name, kind in (("MANIFEST-000005", "manifest"), ("000008.sst", "sst"),
                           ("LOG", "info_log"), ("LOG.old.17", "info_log"), ("000004.log", "wal"),
                           ("LOCK", "lock"),
                           ("CURRENT", "current"), ("OPTIONS-000007", "options"),
                           ("IDENTITY", "identity"), ("dslide.json", "metadata"), ("x", "other")):
            self.assertEqual(file_kind(pathlib.Path("latest", name)), kind)

    def test_as_a_command_with_a_log_and_undo(self):
        command = [sys.executable, pathlib.Path(__file__).with_name("corrupter.py"), self.directory]
        made = subprocess.run([*command, "--seed", "4", "--count", "3"], capture_output=True,
                              text=True, check=True)
        records = [json.loads(line) for line in made.stdout.splitlines()]
        self.assertEqual(len(records), 3)
        kept = (self.parent / "victim.originals/log.jsonl").read_text()
        self.assertEqual([json.loads(line) for line in kept.splitlines()], records)
        self.assertTrue(self.changed())
        subprocess.run([*command, "--undo"], check=True, capture_output=True)
        self.assertEqual(self.content(), self.before)


if __name__ == "__main__":
    unittest.main()
