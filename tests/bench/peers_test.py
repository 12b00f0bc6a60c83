"""The comparison with the peers: what it counts and reads, what it says where something is missing.

usage: peers_test.py

Installs nothing and runs no peer; bench.smoke runs those that are installed.
"""

import fcntl
import lzma
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_PEERS = _ROOT / "bench/peers"
sys.path[:0] = [str(_PEERS), str(_ROOT / "bench/common"), str(_ROOT / "bench/report")]

import compared_tools as tools  # noqa: E402
import data_sets  # noqa: E402
import environment  # noqa: E402
import measured_child  # noqa: E402
import peer_tables  # noqa: E402
import ranking_metrics  # noqa: E402
import sparse_text  # noqa: E402
import summary  # noqa: E402
import word_files  # noqa: E402
from comparison import Comparison  # noqa: E402
from programs import processes  # noqa: E402

TRAIN = "4 5 3\n0,2 1:2 4:0.5\n0 0:1\n 3:1\n0 1:1 2:3\n"


class ScratchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dslide-peers-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="ascii")
        return path


class MetricsTest(unittest.TestCase):
    def test_precision_counts_hits_among_the_first(self):
        score = ranking_metrics.score(
            [[1, 2, 3, 4, 5], [7, 8, 1, 0, 9]], [[1, 3], [0]], lambda _: 1.0
        )
        self.assertAlmostEqual(score["p_at_1"], 1 / 2)
        self.assertAlmostEqual(score["p_at_3"], (2 + 0) / 6)
        self.assertAlmostEqual(score["p_at_5"], (2 + 1) / 10)
        # Relative to the best ranking, which finds two labels and one.
        self.assertAlmostEqual(score["psp_at_3"], 2 / 3)

    def test_rare_labels_weigh_by_their_inverse_propensity(self):
        score = ranking_metrics.score([[0], [1]], [[0, 1], [0, 1]], {0: 2.0, 1: 6.0}.get)
        self.assertAlmostEqual(score["psp_at_1"], (2 + 6) / (6 + 6))
        self.assertAlmostEqual(score["psp_at_5"], (2 + 6) / (8 + 8))

    def test_short_rankings_miss_and_points_without_labels_do_not_count(self):
        score = ranking_metrics.score([[4], [], [1]], [[4], [2], []], lambda _: 1.0)
        self.assertAlmostEqual(score["p_at_1"], 1 / 2)
        self.assertAlmostEqual(score["p_at_5"], 1 / 10)

    def test_propensities_of_jain_and_others(self):
        inverse = ranking_metrics.inverse_propensity([[0], [0, 1], [0], [0]])
        c = (math.log(4) - 1) * 2.5**0.55
        for label, count in ((0, 4), (1, 1), (2, 0)):
            propensity = 1 / (1 + c * math.exp(-0.55 * math.log(count + 1.5)))
            self.assertAlmostEqual(inverse(label), 1 / propensity, msg=str(label))

    def test_refuses_what_is_no_ranking(self):
        ranking_metrics.check([2, 0], 3)
        for ranking, text in (
            ([3], r"label 3, labels are in \[0, 3\)"),
            ([-1], "label -1"),
            ([1, 1], "twice"),
        ):
            with self.subTest(ranking=ranking), self.assertRaisesRegex(ValueError, text):
                ranking_metrics.check(ranking, 3)
        with self.assertRaisesRegex(ValueError, "1 rankings of 2 test points"):
            ranking_metrics.score([[1]], [[1], [2]], lambda _: 1.0)
        with self.assertRaisesRegex(ValueError, "no test point has a label"):
            ranking_metrics.score([[1]], [[]], lambda _: 1.0)
        with self.assertRaisesRegex(ValueError, "2 training points"):
            ranking_metrics.inverse_propensity([[1], [2]])


class FilesTest(ScratchTest):
    def test_reads_points_without_labels(self):
        points = sparse_text.read(self.write("a", TRAIN))
        self.assertEqual((points.features, points.labels), (5, 3))
        self.assertEqual(points.label_ids, [[0, 2], [0], [], [0]])
        self.assertEqual(points.feature_ids, [[1, 4], [0], [3], [1, 2]])
        self.assertEqual(points.values[0], [2, 0.5])

    def test_an_error_names_file_and_line(self):
        for text, where in (
            ("1 2\n", ":1: "),
            ("2 5 3\n0 1:1\n0 x:1\n", ":3: "),
            ("3 5 3\n0 1:1\n", "1 points, its first line says 3"),
        ):
            path = self.write("a", text)
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, f"{path}:? ?{where}"):
                sparse_text.read(path)

    def test_words_repeat_as_often_as_values_say(self):
        points = sparse_text.read(self.write("a", TRAIN))
        word_files.write(points, points, self.folder)
        self.assertEqual(
            (self.folder / "words.txt").read_text().splitlines()[:2],
            ["__label__0 __label__2 w1 w1 w4", "__label__0 w0"],
        )
        self.assertEqual((self.folder / "queries.txt").read_text().splitlines()[3], "w1 w2 w2 w2")
        self.assertEqual((self.folder / "features.txt").read_text(), "w0\nw1\nw2\nw3\nw4\n")

    def test_weighted_features_have_unit_length(self):
        try:
            import scipy.sparse
        except ImportError as error:
            self.skipTest(f"needs python3-scipy: {error}")
        train, test = self.write("a", TRAIN), self.write("b", "1 5 3\n1 1:2 3:1 4:1\n")
        subprocess.run(
            [sys.executable, _PEERS / "workers/prepare.py", train, test, self.folder], check=True
        )
        # (1 + ln tf) ln((N + 1) / (df + 1)), and a value below 1 as it is.
        first = [(1 + math.log(2)) * math.log(5 / 3), 0.5 * math.log(5 / 2)]
        row = scipy.sparse.load_npz(self.folder / "train_x.npz")[0].toarray()[0]
        for feature, value in zip((1, 4), first):
            self.assertAlmostEqual(row[feature], value / math.hypot(*first), places=6)
        row = scipy.sparse.load_npz(self.folder / "test_x.npz")[0].toarray()[0]
        self.assertAlmostEqual(
            row[3] / row[1], math.log(5 / 2) / ((1 + math.log(2)) * math.log(5 / 3)), places=5
        )
        labels = scipy.sparse.load_npz(self.folder / "train_y.npz").toarray().tolist()
        self.assertEqual(labels, [[1, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]])
        again = sparse_text.read(self.folder / "weighted.txt")
        self.assertEqual(again.label_ids, [[0, 2], [0], [], [0]])
        self.assertAlmostEqual(math.hypot(*again.values[3]), 1, places=5)

    def test_a_folder_is_a_data_set_packed_or_not(self):
        source, scratch = self.folder / "mine", self.folder / "scratch"
        source.mkdir()
        scratch.mkdir()
        with self.assertRaisesRegex(data_sets.Absent, "neither .*train.txt nor train.txt.xz"):
            data_sets.find(str(source), None, scratch)
        (source / "train.txt.xz").write_bytes(lzma.compress(TRAIN.encode()))
        (source / "test.txt").write_text(TRAIN)
        found = data_sets.find(str(source), None, scratch)
        self.assertEqual((found.name, found.test), ("mine", source / "test.txt"))
        self.assertEqual(found.train.read_text(), TRAIN)


class ChildTest(ScratchTest):
    def run_python(self, code, limit=60):
        return measured_child.run([sys.executable, "-c", code], self.folder, limit)

    def test_counts_processors_and_memory_of_children(self):
        burn = "import time\nwhile time.process_time() < 0.3: pass\n"
        child = "import subprocess, sys\n"
        child += f"subprocess.run([sys.executable, '-c', {burn!r}])\nprint('done')"
        usage = self.run_python(child)
        self.assertEqual(usage.stdout, "done\n")
        self.assertGreaterEqual(usage.cpu_seconds, 0.3)
        self.assertGreater(usage.wall_seconds, 0)
        grown = self.run_python(
            "x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"
        )
        self.assertGreater(grown.peak_rss_bytes, usage.peak_rss_bytes + (32 << 20))

    def test_memory_of_the_benchmark_itself_does_not_count(self):
        held = bytearray(128 << 20)
        held[::4096] = bytes(len(held) // 4096)
        self.assertLess(self.run_python("pass").peak_rss_bytes, 64 << 20)

    def test_a_failure_says_what_the_program_said(self):
        with self.assertRaisesRegex(measured_child.LeftOut, "ended with 3: no room"):
            self.run_python("import sys\nsys.stderr.write('no room')\nsys.exit(3)")

    def test_what_passes_the_limit_ends_with_its_children(self):
        # Both hold the lock for an hour, where they are not ended.
        code = (
            "import fcntl, os, time\nlock = open('lock', 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
            "os.fork()\ntime.sleep(3600)"
        )
        with self.assertRaisesRegex(measured_child.LeftOut, "not done within 1 s"):
            self.run_python(code, limit=1)
        with open(self.folder / "lock", "w", encoding="ascii") as lock:
            processes.wait_until(lambda: taken(lock), lambda: "nobody holds the lock")


def taken(file):
    """Whether nobody else has the lock of the file; it is ours then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class ToolsTest(ScratchTest):
    def test_the_last_object_counts_behind_whatever_a_library_prints(self):
        self.assertEqual(
            tools._last_json('bar {1}\r99 %{"cpu_seconds": 2.5}\n'), {"cpu_seconds": 2.5}
        )
        with self.assertRaisesRegex(measured_child.LeftOut, "no JSON"):
            tools._last_json("killed")

    def test_answers_are_timed_line_by_line(self):
        echo = [
            sys.executable,
            "-c",
            "import sys\nfor line in sys.stdin: print(line, end='', flush=True)",
        ]
        self.assertGreater(tools._median_answer_ms(echo, self.folder, ["a", "b", "c"], 60), 0)
        silent = [sys.executable, "-c", "pass"]
        self.assertIsNone(tools._median_answer_ms(silent, self.folder, ["a", "b"], 60))

    def test_every_worker_exists_and_every_peer_is_locked(self):
        for tool in tools.TOOLS:
            if tool.worker:
                self.assertTrue((tools.WORKERS / f"{tool.worker}.py").is_file(), tool.worker)
        self.assertEqual(
            [line.split("==")[0] for line in environment.peers_of("peers")],
            ["fasttext", "libpecos", "napkinxc", "omikuji"],
        )
        self.assertIn("torch", environment.locked("torch"))
        for name, path in environment.LOCKS.items():
            lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
            self.assertEqual(len(environment.locked(name)), len(lines), path)

    def test_a_peer_that_is_not_installed_is_named_with_the_remedy(self):
        with mock.patch.dict(os.environ, DSLIDE_CACHE_DIR=str(self.folder)):
            there = environment.Environment("peers", may_install=False)
            for tool in tools.TOOLS[1:]:
                self.assertRegex(tool.why_not({"peers": there}), "--no-install|--with-torch")
            self.assertIsNone(tools.TOOLS[0].why_not({}))

    def test_a_peer_that_cannot_be_imported_is_named_with_the_remedy(self):
        with mock.patch.dict(os.environ, DSLIDE_CACHE_DIR=str(self.folder)):
            there = environment.Environment("peers", may_install=False)
            (there.python.parent).mkdir(parents=True)
            there.python.symlink_to(sys.executable)
            (there.python.parents[1] / "made").touch()
            self.assertIsNone(there.why_not("json"))
            self.assertRegex(
                there.why_not("no_such_peer"),
                "no_such_peer.*install --no-deps --requirement bench/peers/requirements.txt",
            )


class SummaryTest(unittest.TestCase):
    def test_means_and_standard_errors(self):
        runs = [tools.Run(cpu, 1.0, cpu, 10, 20, None, []) for cpu in (1.0, 2.0, 6.0)]
        scores = [dict.fromkeys(summary.ACCURACY, p) for p in (0.5, 0.5, 0.8)]
        figures = summary.of_runs(scores, runs)
        self.assertAlmostEqual(figures["cpu_seconds"], 3)
        self.assertAlmostEqual(figures["p_at_1"], 0.6)
        self.assertAlmostEqual(figures["standard_errors"]["p_at_1"], 0.1)
        self.assertIsNone(figures["predict_p50_ms"])
        self.assertIsNone(summary.of_runs(scores[:1], runs[:1])["standard_errors"]["p_at_1"])


class FakeSet:
    """Of a comparison, a data set on which every tool ranks label 0 first."""

    name = "fake"

    def __init__(self, folder):
        self.prepared = tools.Prepared(folder, 60)

    def shape(self):
        return {"points": 4, "test_points": 4, "features": 5, "labels": 3}

    def score(self, ranked):
        return ranking_metrics.score(ranked, [[0], [0], [0], [1]], lambda _: 1.0)


class ComparisonTest(ScratchTest):
    def compare(self, run):
        options = mock.Mock(
            tools=["dslide"], seeds=3, with_torch=False, no_install=True, limit=60, data=[]
        )
        with mock.patch.object(tools.Tool, "run", run):
            return Comparison(options, None)._measure(FakeSet(self.folder))

    def test_every_seed_is_run_in_an_empty_folder(self):
        seen = []

        def run(tool, data, folder, seed, environments):
            self.assertEqual(list(folder.iterdir()), [])
            (folder / "model").touch()
            seen.append(seed)
            return tools.Run(1.0, 1.0, 1.0, 10, 20, 0.5, [[0]] * 4)

        figures = self.compare(run)["tools"]["dslide"]
        self.assertEqual((seen, figures["runs"]), ([0, 1, 2], 3))
        self.assertAlmostEqual(figures["p_at_1"], 0.75)

    def test_a_tool_that_fails_is_left_out_and_not_tried_again(self):
        seen = []

        def run(tool, data, folder, seed, environments):
            seen.append(seed)
            raise measured_child.LeftOut("not done within 60 s")

        measured = self.compare(run)
        self.assertEqual((seen, measured["tools"]), ([0], {}))
        self.assertEqual(measured["left_out"], {"dslide": "not done within 60 s"})

    def test_sets_that_are_absent_or_malformed_are_skipped(self):
        source = self.folder / "mine"
        source.mkdir()
        (source / "train.txt").write_text(TRAIN)
        started = mock.Mock(directory=self.folder)
        options = mock.Mock(
            tools=["dslide"], with_torch=False, no_install=True, data=[str(source)] * 2
        )
        self.assertEqual(list(Comparison(options, started).sets()), [])
        (source / "test.txt").write_text("1 5 3\nx\n")
        self.assertEqual(list(Comparison(options, started).sets()), [])


def result_of_two_tools():
    figures = dict.fromkeys([*summary.ACCURACY, *summary.COST], 0.5) | {
        "peak_rss_bytes": 3e8,
        "runs": 2,
    }
    errors = dict.fromkeys([*summary.ACCURACY, *summary.COST], 0.01)
    one_run = figures | {"standard_errors": dict.fromkeys(errors), "predict_p50_ms": None}
    return {
        "titles": {"dslide": "dslide", "pecos": "PECOS", "dense": "dense"},
        "seeds": 2,
        "skipped": {"dense": "PyTorch is 6 GB"},
        "versions": {"libpecos": "1.2.8"},
        "settings": {"dslide": "no spec", "dense": "128 units"},
        "counted": {"dslide": "the whole process", "dense": "nothing"},
        "sets": {
            "bibtex": {
                "points": 4880,
                "test_points": 2500,
                "features": 1836,
                "labels": 159,
                "tools": {"dslide": figures | {"standard_errors": errors}, "pecos": one_run},
                "left_out": {},
            }
        },
    }


class PageTest(unittest.TestCase):
    def test_tables_have_means_errors_and_what_is_missing(self):
        text = peer_tables.peers(result_of_two_tools())
        self.assertRegex(text, r"\| dslide +\| 0\.5000 ± 0\.0100 \|")
        self.assertRegex(text, r"\| PECOS +\| 0\.5000  +\|.*\| 300 .*\| – ")
        self.assertIn("move P@1 by 0.0100", text)
        self.assertIn("Not there: dense.", text)

    def test_the_page_says_what_is_counted_and_of_which_versions(self):
        text = peer_tables.page(result_of_two_tools(), "peers.svg")
        for words in (
            "means of 2 seeds",
            "](peers.svg)",
            "- dslide (no spec): the whole process",
            "libpecos 1.2.8",
        ):
            self.assertIn(words, text)
        self.assertNotIn("- dense:", text)

    def test_a_set_on_which_nothing_was_measured_has_a_table_and_says_why(self):
        result = result_of_two_tools()
        result["sets"]["bibtex"] |= {"tools": {}, "left_out": {"pecos": "not done within 60 s"}}
        self.assertIn(
            "Left out: PECOS: not done within 60 s.", peer_tables.page(result, "peers.svg")
        )

    def test_equal_results_give_equal_plots(self):
        try:
            import plots
        except ImportError as error:
            self.skipTest(f"needs python3-matplotlib: {error}")
        with tempfile.TemporaryDirectory(prefix="dslide-peers-") as scratch:
            paths = [pathlib.Path(scratch, name) for name in ("one.svg", "two.svg")]
            for path in paths:
                plots.accuracy_against_cost(path, peer_tables.panels(result_of_two_tools()))
            one, two = (path.read_bytes() for path in paths)
        self.assertEqual(one, two)
        self.assertIn(b"PECOS", one)


class OptionsTest(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run(
            [
                sys.executable,
                _PEERS / "peers_benchmark.py",
                "--bin-dir",
                "/nonexistent",
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 2, done)
        return done.stderr

    def test_refuses_what_does_not_exist_before_anything_is_measured(self):
        self.assertIn(
            "no tool 'pecso'; there are: dslide, pecos,", self.refused("--tools", "dslide,pecso")
        )
        self.assertIn(
            "'bibtxe' is no folder and no data set; there are: citeulike-t,",
            self.refused("--data", "bibtxe"),
        )
        self.assertIn("'0' is no number from 1 on", self.refused("--seeds", "0"))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}", flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)
