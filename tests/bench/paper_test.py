"""The data sets of the papers: how they are found, thinned and trained. Trains nothing.

usage: paper_test.py
"""

import gzip
import io
import lzma
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from unittest import mock

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / f"bench/{name}") for name in ("paper", "common", "peers", "report")]

import measured_child  # noqa: E402
import paper_benchmark  # noqa: E402
import paper_tables  # noqa: E402
import published_sets  # noqa: E402
import samples  # noqa: E402
import trainings  # noqa: E402

SETS = {published.name: published for published in published_sets.SETS}
LIMITS = trainings.Limits(points=None, test_points=100, epochs=5, seconds=60)


class ScratchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dslide-paper-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, text="1 2 3\n0 1:1\n"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
        return path

    def sparse(self, name, points):
        lines = "".join(f"{at % 3} {at % 5}:1\n" for at in range(points))
        return self.write(name, f"{points} 5 3\n{lines}")


class FindTest(ScratchTest):
    def test_published_layouts_are_found(self):
        for name, train in (
            ("Delicious-200K", "DeliciousLarge/deliciousLarge_train.txt"),
            ("Amazon-670K", "Amazon-670K.bow/train.txt"),
            ("WikiLSHTC-325K", "wikiLSHTC_train.txt"),
        ):
            with self.subTest(name=name):
                self.assertIsNone(published_sets.find(SETS[name], self.folder))
                path = self.write(train)
                # One part alone is no set.
                self.assertIsNone(published_sets.find(SETS[name], self.folder))
                test = self.write(train.replace("train", "test"))
                found = published_sets.find(SETS[name], self.folder)
                self.assertEqual((found.train, found.test), (path, test))
                self.assertFalse(found.is_text)

    def test_packed_files_are_found(self):
        self.write("Amazon-670K/amazon_train.txt.xz")
        self.write("Amazon-670K/amazon_test.txt.xz")
        self.assertEqual(
            published_sets.find(SETS["Amazon-670K"], self.folder).train.name, "amazon_train.txt.xz"
        )

    def test_anybodys_train_file_is_no_published_set(self):
        self.write("train.txt")
        self.write("test.txt")
        for published in SETS.values():
            self.assertIsNone(published_sets.find(published, self.folder), published.name)

    def test_a_text_is_one_file(self):
        path = self.write("text8", "a b c")
        found = published_sets.find(SETS["Text8"], self.folder)
        self.assertEqual(found.train, path)
        self.assertTrue(found.is_text)

    def test_who_lacks_a_set_hears_where_it_is_and_where_it_goes(self):
        self.assertRegex(
            published_sets.wanted(SETS["Amazon-670K"]),
            r"manikvarma\.org.*amazon_train\.txt and amazon_test\.txt to Amazon-670K/",
        )
        self.assertRegex(
            published_sets.wanted(SETS["Text8"]), r"mattmahoney\.net.* text8 to text8/"
        )


class SamplesTest(ScratchTest):
    def test_points_are_taken_evenly(self):
        path = samples.thin(self.sparse("all.txt", 10), 4, self.folder / "few.txt")
        lines = path.read_text().splitlines()
        self.assertEqual(lines[0], "4 5 3")
        self.assertEqual([line.split()[1] for line in lines[1:]], ["2:1", "4:1", "2:1", "4:1"])

    def test_a_small_file_stays_where_it_is(self):
        path = self.sparse("all.txt", 10)
        for most in (10, 11, None):
            self.assertEqual(samples.thin(path, most, self.folder / "few.txt"), path)
        self.assertFalse((self.folder / "few.txt").exists())

    def test_packed_files_are_thinned(self):
        text = self.sparse("all.txt", 10).read_bytes()
        for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
            packed = self.folder / f"all.txt{suffix}"
            packed.write_bytes(pack(text))
            self.assertEqual(samples.header(packed), (10, 5, 3))
            thin = samples.thin(packed, 5, self.folder / "few.txt")
            self.assertEqual(samples.header(thin), (5, 5, 3))

    def test_another_format_is_refused(self):
        for text in ("0 1:1\n", "", "a b c\n"):
            with self.assertRaisesRegex(ValueError, "points features labels"):
                samples.header(self.write("x.txt", text))

    def test_a_text_is_cut_by_words(self):
        path = self.write("text8", " ".join("abcdefghij"))
        train, test = samples.split_text(path, None, 1, self.folder)
        self.assertEqual((train.read_text(), test.read_text()), ("a b c d e f g h\n", "i\n"))
        train, test = samples.split_text(path, 3, 9, self.folder)
        self.assertEqual((train.read_text(), test.read_text()), ("a b c\n", "i j\n"))
        self.assertEqual(samples.text_shape(train), (3, 3, 3))


class SpecTest(unittest.TestCase):
    def head(self, name, labels=670_091, hashed=True):
        spec = trainings.spec_of(name, SETS[name].settings, labels, hashed)
        return spec, spec["tables"][1]["head"]

    def test_the_settings_of_the_papers(self):
        spec, head = self.head("Amazon-670K")
        self.assertEqual(spec["training"]["batch_size"], 256)
        self.assertEqual([table["dim"] for table in spec["tables"]], [128, 128])
        self.assertEqual((head["max_active"], head["tail_rows"]), (3350, 0))
        self.assertEqual(
            [head["hash"][field] for field in ("family", "codes_per_table", "num_tables")],
            ["dwta", 8, 50],
        )

    def test_no_more_tables_than_there_can_be(self):
        self.assertEqual(self.head("WikiLSHTC-325K")[1]["hash"]["num_tables"], 256)

    def test_all_rows_active(self):
        self.assertEqual(self.head("Text8", hashed=False)[1]["max_active"], 0)
        self.assertNotIn("hash", self.head("Text8", hashed=False)[1])


class RunTest(ScratchTest):
    def prepared(self, points):
        path = self.sparse("train.txt", points)
        found = published_sets.Found(SETS["Amazon-670K"], path, self.sparse("test.txt", 10))
        return trainings.Prepared.of(found, self.folder, LIMITS)

    def run_dense(self, points, speed):
        """What `dense` does where the baseline is so fast; a training is not begun."""
        usage = measured_child.Usage(1.0, 1.0, 1, f'{{"samples_per_second": {speed}}}\n')
        with (
            mock.patch.object(measured_child, "run", return_value=usage),
            mock.patch.object(trainings, "_train", return_value={"p_at_1": 0.5, "wall_seconds": 1}),
            redirect_stderr(io.StringIO()),
        ):
            settings = SETS["Amazon-670K"].settings
            return trainings.run("dense", "x", settings, self.prepared(points), self.folder)

    def test_the_dense_network_is_left_out_where_it_takes_too_long(self):
        self.assertEqual(self.run_dense(points=100, speed=10.0)["p_at_1"], 0.5)
        self.assertRegex(self.run_dense(points=200, speed=10.0)["left_out"], "100 s.* 60 s")

    def test_a_training_that_fails_is_left_out(self):
        with (
            mock.patch.object(measured_child, "run", side_effect=measured_child.LeftOut("no room")),
            redirect_stderr(io.StringIO()),
        ):
            self.assertEqual(
                trainings.run(
                    "papers", "x", SETS["Amazon-670K"].settings, self.prepared(10), self.folder
                ),
                {"left_out": "no room"},
            )


class OptionsTest(unittest.TestCase):
    def refused(self, *arguments):
        said = io.StringIO()
        with redirect_stderr(said), self.assertRaises(SystemExit):
            paper_benchmark.parse(["--bin-dir", "bin", *arguments])
        return said.getvalue()

    def test_wrong_options_are_named(self):
        self.assertIn("--data DIR", self.refused())
        self.assertIn("'/nonexistent' is no folder", self.refused("--data", "/nonexistent"))
        self.assertIn("no set 'Amazon'", self.refused("--data", "/", "--sets", "Amazon"))
        self.assertIn("'0' is no number", self.refused("--data", "/", "--points", "0"))

    def test_defaults(self):
        options = paper_benchmark.parse(["--bin-dir", "bin", "--data", "/"])
        self.assertEqual([published.name for published in options.sets], list(SETS))
        self.assertEqual((options.points, options.epochs), (None, 5))


class TablesTest(unittest.TestCase):
    def test_what_was_not_measured_is_named(self):
        figures = dict.fromkeys(("p_at_1", "p_at_3", "p_at_5"), 0.25) | {
            "epochs": None,
            "seconds": 10.0,
            "samples_per_second": 100.0,
            "active_rows_per_sample": 20.0,
            "wall_seconds": 12.0,
            "cpu_seconds": 20.0,
            "peak_rss_bytes": 5e8,
        }
        result = {
            "titles": trainings.TITLES,
            "points_at_most": 1000,
            "test_points_at_most": 100,
            "absent": {"Text8": published_sets.wanted(SETS["Text8"])},
            "sets": {
                "WikiLSHTC-325K": {
                    "points": 1000,
                    "features": 50,
                    "labels": 4000,
                    "hidden": 128,
                    "batch": 256,
                    "family": "dwta",
                    "codes_per_table": 5,
                    "num_tables": 350,
                    "num_tables_here": 256,
                    "paper": "a paper",
                    "runs": {"papers": figures, "dense": {"left_out": "too slow"}},
                }
            },
        }
        text = paper_tables.page(result)
        self.assertRegex(text, r"papers' settings \| 0\.2500 .* – .* 0\.50 % ")
        self.assertIn("L = 350 (256 here)", text)
        self.assertIn("Left out: dslide, all rows active: too slow.", text)
        self.assertIn("Not there: Text8: get it from", text)
        self.assertIn("at most 1,000 points", text)


if __name__ == "__main__":
    unittest.main()
