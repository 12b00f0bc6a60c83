"""The comparison with the peers: what it counts and reads, what it says where something is missing.

Installs nothing and runs no peer; bench.smoke runs those that are installed.
"""

import fcntl
import lzma
import math
import pathlib
import re
import subprocess
import sys
from typing import Any
from unittest import mock

import compared_tools as tools
import data_sets
import environment
import measured_child
import peer_tables
import pytest
import ranking_metrics
import sparse_text
import summary
import word_files
from comparison import Comparison
from processes import wait_until
from pytest import approx

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench/peers"
TRAIN = "4 5 3\n0,2 1:2 4:0.5\n0 0:1\n 3:1\n0 1:1 2:3\n"


def write(path: pathlib.Path, text: str = TRAIN) -> pathlib.Path:
    path.write_text(text, encoding="ascii")
    return path


@pytest.mark.parametrize(("rankings", "labels", "scores"), [
    # Hits among the first; psp relative to the best ranking, which finds two labels and one.
    ([[1, 2, 3, 4, 5], [7, 8, 1, 0, 9]], [[1, 3], [0]],
     {"p_at_1": 1 / 2, "p_at_3": (2 + 0) / 6, "p_at_5": (2 + 1) / 10, "psp_at_3": 2 / 3}),
    # Short rankings miss, and points without labels do not count.
    ([[4], [], [1]], [[4], [2], []], {"p_at_1": 1 / 2, "p_at_5": 1 / 10}),
])
def test_precision(rankings: Any, labels: Any, scores: dict[str, float]) -> None:
    score = ranking_metrics.score(rankings, labels, lambda _: 1.0)
    assert {name: score[name] for name in scores} == approx(scores)


def test_rare_labels_weigh_by_their_inverse_propensity() -> None:
    score = ranking_metrics.score([[0], [1]], [[0, 1], [0, 1]], {0: 2.0, 1: 6.0}.get)
    assert score["psp_at_1"] == approx((2 + 6) / (6 + 6))
    assert score["psp_at_5"] == approx((2 + 6) / (8 + 8))


@pytest.mark.parametrize(("label", "count"), [(0, 4), (1, 1), (2, 0)])
def test_propensities_of_jain_and_others(label: int, count: int) -> None:
    inverse = ranking_metrics.inverse_propensity([[0], [0, 1], [0], [0]])
    c = (math.log(4) - 1) * 2.5**0.55
    assert inverse(label) == approx(1 + c * math.exp(-0.55 * math.log(count + 1.5)))


def test_refuses_what_cannot_be_scored() -> None:
    ranking_metrics.check([2, 0], 3)
    for ranking, said in (([3], r"label 3, labels are in \[0, 3\)"), ([1, 1], "twice")):
        with pytest.raises(ValueError, match=said):
            ranking_metrics.check(ranking, 3)
    with pytest.raises(ValueError, match="1 rankings of 2 test points"):
        ranking_metrics.score([[1]], [[1], [2]], lambda _: 1.0)
    with pytest.raises(ValueError, match="no test point has a label"):
        ranking_metrics.score([[1]], [[]], lambda _: 1.0)
    with pytest.raises(ValueError, match="2 training points"):
        ranking_metrics.inverse_propensity([[1], [2]])


def test_reads_points_without_labels(tmp_path: pathlib.Path) -> None:
    points = sparse_text.read(write(tmp_path / "a"))
    assert (points.features, points.labels) == (5, 3)
    assert points.label_ids == [[0, 2], [0], [], [0]]
    assert points.feature_ids == [[1, 4], [0], [3], [1, 2]]
    assert list(points.values[0]) == [2, 0.5]
    for text, where in (("1 2\n", ":1: "), ("2 5 3\n0 1:1\n0 x:1\n", ":3: "),
                        ("3 5 3\n0 1:1\n", "1 points, its first line says 3")):
        with pytest.raises(ValueError, match=f":? ?{where}"):
            sparse_text.read(write(tmp_path / "a", text))


def test_words_repeat_as_often_as_values_say(tmp_path: pathlib.Path) -> None:
    points = sparse_text.read(write(tmp_path / "a"))
    word_files.write(points, points, tmp_path)
    words, queries, features = (
        (tmp_path / f"{name}.txt").read_text().splitlines()
        for name in ("words", "queries", "features"))
    assert words[:2] == ["__label__0 __label__2 w1 w1 w4", "__label__0 w0"]
    assert queries[3] == "w1 w2 w2 w2"
    assert features == ["w0", "w1", "w2", "w3", "w4"]


def test_weighted_features_have_unit_length(tmp_path: pathlib.Path) -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="needs python3-scipy")
    train, test = write(tmp_path / "a"), write(tmp_path / "b", "1 5 3\n1 1:2 3:1 4:1\n")
    subprocess.run([sys.executable, PEERS / "workers/prepare.py", train, test, tmp_path],
                   check=True)

    def row(name: str) -> Any:
        return sparse.load_npz(tmp_path / f"{name}_x.npz")[0].toarray()[0]

    # (1 + ln tf) ln((N + 1) / (df + 1)), and a value below 1 as it is.
    first = [(1 + math.log(2)) * math.log(5 / 3), 0.5 * math.log(5 / 2)]
    length = math.hypot(*first)
    assert row("train")[[1, 4]] == approx([value / length for value in first], abs=1e-6)
    assert row("test")[3] / row("test")[1] == approx(
        math.log(5 / 2) / ((1 + math.log(2)) * math.log(5 / 3)), abs=1e-5)
    labels = sparse.load_npz(tmp_path / "train_y.npz").toarray().tolist()
    assert labels == [[1, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    again = sparse_text.read(tmp_path / "weighted.txt")
    assert again.label_ids == [[0, 2], [0], [], [0]]
    assert math.hypot(*again.values[3]) == approx(1, abs=1e-5)


def test_a_folder_is_a_data_set_packed_or_not(tmp_path: pathlib.Path) -> None:
    source, scratch = tmp_path / "mine", tmp_path / "scratch"
    source.mkdir()
    scratch.mkdir()
    with pytest.raises(data_sets.Absent, match="neither .*train.txt nor train.txt.xz"):
        data_sets.find(str(source), None, scratch)
    (source / "train.txt.xz").write_bytes(lzma.compress(TRAIN.encode()))
    test = write(source / "test.txt")
    found = data_sets.find(str(source), None, scratch)
    assert (found.name, found.test, found.train.read_text()) == ("mine", test, TRAIN)
    assert found.groups is None
    groups = source / "groups.txt"
    groups.write_text("a\nb\n")
    assert data_sets.find(str(source), None, scratch).groups == groups


def run_python(code: str, folder: pathlib.Path, limit: float = 60) -> Any:
    return measured_child.run([sys.executable, "-c", code], folder, limit)


def test_counts_processors_and_memory_of_children(tmp_path: pathlib.Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    usage = run_python("import subprocess, sys\n"
                       f"subprocess.run([sys.executable, '-c', {burn!r}])\nprint('done')", tmp_path)
    assert usage.stdout == "done\n"
    assert usage.cpu_seconds >= 0.3
    assert usage.wall_seconds > 0
    with pytest.raises(measured_child.LeftOut, match="ended with 3: no room"):
        run_python("import sys\nsys.stderr.write('no room')\nsys.exit(3)", tmp_path)
    grown = run_python("x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1",
                       tmp_path)
    assert grown.peak_rss_bytes > usage.peak_rss_bytes + (32 << 20)


def taken(file: Any) -> bool:
    """Whether nobody else has the lock of the file; it is ours then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_what_passes_the_limit_ends_with_its_children(tmp_path: pathlib.Path) -> None:
    # Both hold the lock for an hour, where they are not ended.
    code = ("import fcntl, os, time\nlock = open('lock', 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
            "os.fork()\ntime.sleep(3600)")
    with pytest.raises(measured_child.LeftOut, match="not done within 1 s"):
        run_python(code, tmp_path, limit=1)
    with open(tmp_path / "lock", "w", encoding="ascii") as lock:
        wait_until(lambda: taken(lock), lambda: "nobody holds the lock")


@pytest.fixture
def no_peers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DSLIDE_CACHE_DIR", str(tmp_path))
    return environment.Environment("peers", may_install=False)


def test_a_peer_that_cannot_be_imported_is_named_with_the_remedy(no_peers: Any) -> None:
    no_peers.python.parent.mkdir(parents=True)
    no_peers.python.symlink_to(sys.executable)
    (no_peers.python.parents[1] / "made").touch()
    assert no_peers.why_not("json") is None
    why = no_peers.why_not("no_such_peer")
    assert "no_such_peer" in why
    assert "install --no-deps --requirement bench/peers/requirements.txt" in why


def test_means_and_standard_errors() -> None:
    runs = [tools.Run(cpu, 1.0, cpu, 10, 20, None, []) for cpu in (1.0, 2.0, 6.0)]
    scores = [dict.fromkeys(summary.ACCURACY, p) for p in (0.5, 0.5, 0.8)]
    figures = summary.of_runs(scores, runs)
    assert (figures["cpu_seconds"], figures["p_at_1"]) == (approx(3), approx(0.6))
    assert figures["standard_errors"]["p_at_1"] == approx(0.1)
    assert figures["predict_p50_ms"] is None
    assert summary.of_runs(scores[:1], runs[:1])["standard_errors"]["p_at_1"] is None


class FakeSet:
    """Of a comparison, a data set on which every tool ranks label 0 first."""

    name = "fake"

    def __init__(self, folder: pathlib.Path) -> None:
        self.prepared = tools.Prepared(folder, 60)

    def shape(self) -> Any:
        return {"points": 4, "test_points": 4, "features": 5, "labels": 3}

    def score(self, ranked: Any) -> Any:
        return ranking_metrics.score(ranked, [[0], [0], [0], [1]], lambda _: 1.0)


def options(**more: Any) -> Any:
    return mock.Mock(tools=["dslide"], seeds=3, with_torch=False, no_install=True, limit=60, **more)


def test_every_seed_is_run_in_an_empty_folder(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run(tool: Any, data: Any, folder: pathlib.Path, seed: int, environments: Any) -> Any:
        assert list(folder.iterdir()) == []
        (folder / "model").touch()
        seen.append(seed)
        return tools.Run(1.0, 1.0, 1.0, 10, 20, 0.5, [[0]] * 4)

    monkeypatch.setattr(tools.Tool, "run", run)
    figures = Comparison(options(data=[]), None)._measure(FakeSet(tmp_path))["tools"]["dslide"]
    assert (seen, figures["runs"], figures["p_at_1"]) == ([0, 1, 2], 3, approx(0.75))


def test_a_tool_that_fails_is_left_out_and_not_tried_again(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = mock.Mock(side_effect=measured_child.LeftOut("not done within 60 s"))
    monkeypatch.setattr(tools.Tool, "run", run)
    measured = Comparison(options(data=[]), None)._measure(FakeSet(tmp_path))
    assert (run.call_count, measured["tools"]) == (1, {})
    assert measured["left_out"] == {"dslide": "not done within 60 s"}


@pytest.fixture
def two_tools() -> Any:
    """A result."""
    names = [*summary.ACCURACY, *summary.COST]
    figures = dict.fromkeys(names, 0.5) | {"peak_rss_bytes": 3e8, "runs": 2}
    one_run = figures | {"standard_errors": dict.fromkeys(names), "predict_p50_ms": None}
    measured = {"dslide": figures | {"standard_errors": dict.fromkeys(names, 0.01)},
                "pecos": one_run}
    return {
        "titles": {"dslide": "dslide", "pecos": "PECOS", "dense": "dense"}, "seeds": 2,
        "skipped": {"dense": "PyTorch is 6 GB"}, "versions": {"libpecos": "1.2.8"},
        "settings": {"dslide": "no spec", "dense": "128 units"},
        "counted": {"dslide": "the whole process", "dense": "nothing"},
        "sets": {"bibtex": {"points": 4880, "test_points": 2500, "features": 1836, "labels": 159,
                            "tools": measured, "left_out": {}}},
    }


def test_tables_have_means_errors_and_what_is_missing(two_tools: Any) -> None:
    text = peer_tables.peers(two_tools)
    assert re.search(r"\| dslide +\| 0\.5000 ± 0\.0100 \|", text)
    assert re.search(r"\| PECOS +\| 0\.5000  +\|.*\| 300 .*\| – ", text)
    assert "move P@1 by 0.0100" in text
    assert "Not there: dense." in text
    page = peer_tables.page(two_tools, "peers.svg")
    for words in ("means of 2 seeds", "](peers.svg)", "- dslide (no spec): the whole process",
                  "libpecos 1.2.8"):
        assert words in page
    assert "- dense:" not in page
    two_tools["sets"]["bibtex"] |= {"tools": {}, "left_out": {"pecos": "not done within 60 s"}}
    assert "Left out: PECOS: not done within 60 s." in peer_tables.page(two_tools, "peers.svg")
