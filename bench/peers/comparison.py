"""All tools on all data sets: trained once for each seed, their rankings scored by one function."""

import argparse
import pathlib
import shutil
from collections.abc import Iterator

import data_sets
import measured_child
import programs
import ranking_metrics
import sparse_text
import summary
import word_files
from compared_tools import TOOLS, WORKERS, Prepared, Run, Tool
from data_sets import GROUPS
from environment import Environment
from measured_child import LeftOut
from measurement import say


class _Set:
    """A data set that was read, and what is made of it in `folder` for the tools."""

    def __init__(
        self, found: data_sets.DataSet, folder: pathlib.Path, limit_seconds: float
    ) -> None:
        self.name = found.name
        self._train, self._test = sparse_text.read(found.train), sparse_text.read(found.test)
        self._inverse = ranking_metrics.inverse_propensity(self._train.label_ids)
        self.prepared = Prepared(folder, limit_seconds)
        word_files.write(self._train, self._test, folder)
        parts = {"train.txt": found.train, "test.txt": found.test, GROUPS: found.groups}
        for name, path in parts.items():
            if path is not None and path != folder / name:
                (folder / name).symlink_to(path.resolve())

    def weigh(self, python: pathlib.Path) -> None:
        """Makes the weighted features, which only the peers read."""
        folder = self.prepared.folder
        measured_child.run(
            [python, WORKERS / "prepare.py", folder / "train.txt", folder / "test.txt", folder],
            folder,
            self.prepared.limit_seconds,
        )

    def score(self, ranked: list[list[int]]) -> dict[str, float]:
        """Raises LeftOut where it is no ranking of the test points."""
        try:
            for ranking in ranked:
                ranking_metrics.check(ranking, self._train.labels)
            return ranking_metrics.score(ranked, self._test.label_ids, self._inverse)
        except ValueError as error:
            raise LeftOut(f"its rankings are wrong: {error}") from None

    def shape(self) -> dict[str, int]:
        return {
            "points": len(self._train.label_ids),
            "test_points": len(self._test.label_ids),
            "features": self._train.features,
            "labels": self._train.labels,
        }


class Comparison:
    """What the options ask for. `started` owns the scratch folder."""

    def __init__(self, options: argparse.Namespace, started: programs.Programs) -> None:
        self._options, self._started = options, started
        chosen = [tool for tool in TOOLS if tool.key in options.tools]
        names = {tool.environment for tool in chosen if tool.worker}
        if not options.with_torch:
            names.discard("torch")
        self._environments = {
            name: Environment(name, not options.no_install) for name in sorted(names)
        }
        self.skipped = {
            tool.key: why
            for tool in chosen
            if (why := tool.why_not(self._environments)) is not None
        }
        self._tools = [tool for tool in chosen if tool.key not in self.skipped]
        for tool in chosen:
            if tool.key in self.skipped:
                say(f"skipped: {tool.title}: {self.skipped[tool.key]}")

    def sets(self) -> Iterator[tuple[str, dict[str, object]]]:
        """(name, figures) of each data set that there is, as soon as they are measured."""
        for number, name in enumerate(self._options.data):
            folder = self._started.directory / f"set-{number}"
            folder.mkdir()
            try:
                found = data_sets.find(name, self._started, folder)
                data = _Set(found, folder, self._options.limit)
            except (data_sets.Absent, ValueError) as why:
                say(f"skipped: data set {name}: {why}")
            else:
                yield found.name, self._measure(data)
            finally:
                shutil.rmtree(folder)

    def _measure(self, data: _Set) -> dict[str, object]:
        shape = data.shape()
        say(
            f"{data.name}: {shape['points']:,} training and {shape['test_points']:,} test points, "
            f"{shape['labels']:,} labels"
        )
        weighers = [tool for tool in self._tools if tool.worker]
        if weighers:
            data.weigh(self._environments[weighers[0].environment].python)
        runs: dict[str, list[Run]] = {tool.key: [] for tool in self._tools}
        scores: dict[str, list[dict[str, float]]] = {tool.key: [] for tool in self._tools}
        left_out: dict[str, str] = {}
        # All tools with a seed before the next seed: a busy hour of the machine touches all alike.
        for seed in range(self._options.seeds):
            for tool in self._tools:
                if tool.key in left_out:
                    continue
                try:
                    run, score = self._run(tool, data, seed)
                    runs[tool.key].append(run)
                    scores[tool.key].append(score)
                except LeftOut as why:
                    left_out[tool.key] = str(why)
                    say(f"left out: {tool.title} on {data.name}: {why}")
        tools = {
            key: summary.of_runs(scores[key], runs[key]) for key in runs if key not in left_out
        }
        return shape | {"tools": tools, "left_out": left_out}

    def _run(self, tool: Tool, data: _Set, seed: int) -> tuple[Run, dict[str, float]]:
        folder = data.prepared.folder / "run"
        folder.mkdir()
        try:
            run = tool.run(data.prepared, folder, seed, self._environments)
        except (ValueError, KeyError) as error:
            raise LeftOut(f"its output is not understood: {error!r}") from error
        finally:
            shutil.rmtree(folder)
        score = data.score(run.ranked)
        say(
            f"  {tool.title}, seed {seed}: P@1 {score['p_at_1']:.4f}, {run.cpu_seconds:.1f} CPU-s, "
            f"{run.peak_rss_bytes / 1e6:.0f} MB"
        )
        return run, score
