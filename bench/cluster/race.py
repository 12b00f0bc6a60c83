"""Time to equal accuracy over slow links: dslide beside dense data parallel on the same data."""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence

import data_parallel
import data_sets
import dense_baseline
import measurement
import programs
from measurement import say
from shaped_cluster import SHARDS, ShapedCluster
from shaped_network import ShapedNetwork

MODEL = pathlib.Path(__file__).resolve().parent / "race.json"
RATES = ("1gbit", "100mbit")
# Of the best P@1 that data parallel reaches at the faster rate. The last points of accuracy are
# won slowly and by chance; a twentieth below them every training is still rising.
TARGET_SHARE = 0.95

Curve = list[list[float]]  # [seconds of training, P@1 on the test points], as time goes


def seconds_to(curve: Curve, target: float) -> float | None:
    """Of the first evaluation that is not below the target."""
    return next((seconds for seconds, reached in curve if reached >= target), None)


def best(curve: Curve) -> float:
    return max(reached for _, reached in curve)


def lengths(every: int, most: int) -> Iterator[int]:
    """Steps of trainings: multiples of `every`, each about half as large again, `most` the last."""
    times = 1
    while times * every < most:
        yield times * every
        times += max(1, times // 2 if times.bit_count() == 1 else times // 3)
    yield most


def side(title: str, rate: str, curve: Curve, figures: dict) -> dict:
    """One training of the race; `figures`: samples/s, bytes of a sample on the busiest link, …"""
    return {"title": title, "rate": rate, "curve": curve, "best_p_at_1": best(curve)} | figures


def judged(sides: Sequence[dict], target: float) -> list[dict]:
    """With the seconds to the target: None where a training ended before."""
    return [
        one
        | {"seconds": one["curve"][-1][0], "seconds_to_target": seconds_to(one["curve"], target)}
        for one in sides
    ]


@dataclasses.dataclass(frozen=True)
class Options:
    bin_dir: pathlib.Path
    python: pathlib.Path  # with PyTorch
    data: str  # a name or a folder of data_sets
    steps: int  # of a training, at most
    evaluate_every: int  # steps
    limit_seconds: float  # of a training
    dense: dense_baseline.Sizes
    min_repeats: int
    max_repeats: int
    rates: Sequence[str] = RATES


class Race:
    def __init__(self, options: Options, network: ShapedNetwork) -> None:
        self._options, self._network = options, network
        self._spec = json.loads(MODEL.read_text(encoding="utf-8"))

    def run(self) -> dict:
        """Raises data_sets.Absent."""
        with programs.Programs(self._options.bin_dir) as started:
            data = data_sets.find(self._options.data, started, started.directory)
            say(f"Time to equal accuracy on {data.name}")
            parallel = []
            for rate in self._options.rates:
                self._network.shape(rate)
                parallel.append(side(_DDP, rate, *self._data_parallel(data)))
            target = TARGET_SHARE * parallel[0]["best_p_at_1"]
            say(f"  the accuracy to reach is P@1 {target:.4f}")
            ours = [one for rate in self._options.rates for one in self._dslide(rate, data, target)]
            baseline = self._baseline(data, parallel[0]["curve"])
            with open(data.train, encoding="ascii") as file:
                points, features, labels = map(int, file.readline().split())
        return {
            "data": data.name,
            "points": points,
            "features": features,
            "labels": labels,
            "hidden": self._spec["tables"][0]["dim"],
            "target_p_at_1": target,
            "target_share": TARGET_SHARE,
            "limit_seconds": self._options.limit_seconds,
            "steps": self._options.steps,
            "sides": judged([*ours, *parallel, *baseline], target),
        }

    def _dslide(self, rate: str, data: data_sets.DataSet, target: float) -> list[dict]:
        self._network.shape(rate)
        return [
            side("dslide, hashed network", rate, *self._repeated(self._hashed, data, target)),
            side("dslide, no spec", rate, *self._repeated(self._without_spec, data, target)),
        ]

    def _repeated(
        self,
        once: Callable[[data_sets.DataSet, float], tuple[Curve, dict]],
        data: data_sets.DataSet,
        target: float,
    ) -> tuple[Curve, dict]:
        """The run whose time is the median."""
        runs: list[tuple[Curve, dict]] = []
        seconds: list[float] = []
        options = self._options
        while not measurement.enough(seconds, options.min_repeats, options.max_repeats, 0.05):
            runs.append(once(data, target))
            seconds.append(runs[-1][0][-1][0])
        middle = measurement.median(seconds)
        curve, figures = min(runs, key=lambda run: abs(run[0][-1][0] - middle))
        spread = measurement.spread(seconds)
        return curve, figures | {"repeats": len(seconds), "spread": spread}

    def _trained(
        self, data: data_sets.DataSet, flags: Sequence[object]
    ) -> tuple[list[float], dict]:
        """A training on a fresh cluster: a point of a curve, and figures."""
        with programs.Programs(self._options.bin_dir) as started:
            cluster, model = ShapedCluster(started, self._network), started.directory / "model"
            report = cluster.train(data.train, [*flags, "--model-dir", model])
            point = [report["seconds"], cluster.precision(data.test, model)]
        return point, {
            "samples_per_second": report["samples_per_second"],
            "bytes_per_sample": SHARDS * report["bytes_per_sample_and_shard"],
        }

    def _hashed(self, data: data_sets.DataSet, target: float) -> tuple[Curve, dict]:
        """Longer and longer trainings, until one is there. Not one that goes on after each
        evaluation: a trainer that begins anew draws the same tail rows again."""
        curve: Curve = []
        figures: dict = {}
        for steps in lengths(self._options.evaluate_every, self._options.steps):
            point, figures = self._trained(data, ["--model", MODEL, "--steps", steps])
            curve.append(point)
            say(f"  dslide: P@1 {point[1]:.4f} in {point[0]:.1f} s")
            if point[1] >= target or point[0] > self._options.limit_seconds:
                break
        return curve, figures

    def _without_spec(self, data: data_sets.DataSet, target: float) -> tuple[Curve, dict]:
        del target
        point, figures = self._trained(data, [])
        say(f"  dslide without a spec: P@1 {point[1]:.4f} in {point[0]:.1f} s")
        return [point], figures

    def _data_parallel(self, data: data_sets.DataSet) -> tuple[Curve, dict]:
        settings = data_parallel.Settings.of_spec(
            self._spec,
            data.train,
            test=str(data.test),
            steps=self._options.steps,
            evaluate_every=self._options.evaluate_every,
            limit_seconds=self._options.limit_seconds,
        )
        with programs.Programs(self._options.bin_dir) as started:
            report = data_parallel.train(started, self._network, self._options.python, settings)
        curve = report["curve"]
        say(f"  PyTorch: P@1 {best(curve):.4f} in {curve[-1][0]:.1f} s")
        return curve, {
            "samples_per_second": report["samples_per_second"],
            "bytes_per_sample": report["bytes_per_sample_and_worker"],
            "spread": report["spread"],
            "repeats": 1,
        }

    def _baseline(self, data: data_sets.DataSet, steps_of: Curve) -> list[dict]:
        """Our dense baseline: as accurate after a step as PyTorch, whose curve this is, in the time
        of its own steps: the same network, optimizer and batches."""
        try:
            worker = dense_baseline.compute(self._options.bin_dir, data.train, self._options.dense)
        except programs.Skipped as reason:
            say(f"skipped: {reason}")
            return []
        result = []
        for rate in self._options.rates:
            self._network.shape(rate)
            figures = dense_baseline.exchange(self._network, worker, self._options.dense)
            step = figures["compute_seconds"] + figures["all_reduce_seconds"]
            every = self._options.evaluate_every
            curve = [[step * every * (at + 1), one[1]] for at, one in enumerate(steps_of)]
            result.append(
                side(
                    "dense baseline",
                    rate,
                    curve,
                    {
                        "samples_per_second": figures["samples_per_second"],
                        "bytes_per_sample": dense_baseline.bytes_per_sample(figures),
                    },
                )
            )
        return result


_DDP = "PyTorch DistributedDataParallel"
