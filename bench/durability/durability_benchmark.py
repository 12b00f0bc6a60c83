"""What durability costs: the command log, checkpoints of the cluster, restarts.

usage: durability_benchmark.py --bin-dir DIR [--quick] [--steps N] [--rounds N] [-o json]

A coordinator, two shards and a trainer on this machine, on the shape of the model. All figures are
ratios of one run, or come with their own baseline:

  modes        samples/s of the modes log-periodic and log, relative to mode checkpoint; the modes take turns
  checkpoints  a training with one checkpoint after the other (a full one, then increments), against
               one without: what each costs, and how long changes waited at its cut
  increments   full checkpoints and increments of one table, 5 % of whose rows change between them
  restart      a shard of mode log after a clean stop (its image), and after a kill (image and replay)
"""

import argparse
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import increments  # noqa: E402
import measurement  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402
from programs import processes  # noqa: E402

SHARDS = 2
# Of the part `cuts`: shards, GiB of rows on each, checkpoints.
CUT_SHARDS = 3
CUT_GIB = 1.0
CUTS = 20
CUT_STEPS = 1_000_000  # that training is stopped when there were enough
MODES = ("checkpoint", "log-periodic", "log")
TRAIN_SECONDS = 900
CALL_TIMEOUT = "300s"
# The default of the coordinator's --mean-time-between-failures, and its shortest interval.
FAILURE_SECONDS = 3600
LEAST_INTERVAL_SECONDS = 10
CHANGED = 0.05
GIB = 2**30


class Cluster:
    """A coordinator and its shards, each with a data directory; they end with `started`."""

    def __init__(self, started, mode, shards=SHARDS):
        self._started = started
        self._mode = mode
        self._coordinator = started.start(
            "dslide-coordinator", "--listen", "127.0.0.1:0", "--admin", "", "--shards", shards,
            "--data-dir", started.directory / "coordinator", "--checkpoint-interval", "off")
        self.address = self._coordinator.wait_for_stderr(r" address=(\S+)").group(1)
        self._shards = [self._start(shard) for shard in range(shards)]
        for process in self._shards:
            process.wait_for_stderr(r" shard ready ")

    def data_dir(self, shard):
        return self._started.directory / f"shard-{shard}"

    def _start(self, shard):
        return self._started.start(
            "dslide-shard", "--coordinator", self.address, "--admin", "", "--shard-id", shard,
            "--data-dir", self.data_dir(shard), "--durability", self._mode)

    def restart(self, shard, signal_number):
        """Ends a shard and starts it again; what it logs about its state."""
        self._shards[shard].stop(signal_number)
        self._shards[shard] = self._start(shard)
        self._shards[shard].wait_for_stderr(r" shard ready ")
        found = self._shards[shard].wait_for_stderr(
            r" state restored .* replayed=(\d+) .* duration=(\S+)")
        return {"records": int(found.group(1)), "seconds": duration_seconds(found.group(2))}

    def train(self, options, data, job, steps=None):
        return self._started.start(
            "dslide", "train", "-q", "-o", "json", "--cluster", self.address, "--job", job,
            "--data", data["train"], "--model", options.model, "--steps", steps or options.steps,
            "--epochs", 1000, "--validation-fraction", 0, "--timeout", CALL_TIMEOUT)

    def checkpoint(self):
        return self._started.run_json("dslide", "checkpoint", "create", "--cluster", self.address,
                                      "-o", "json", "--timeout", CALL_TIMEOUT, within=400)

    def frozen_seconds(self):
        """From the freeze of the first shard to the cut of the last, of each checkpoint."""
        return [duration_seconds(frozen) for frozen in re.findall(
            r" cluster checkpoint committed .* frozen=(\S+)", self._coordinator.stderr)]


def duration_seconds(text):
    """Seconds of "1m2.5s", as the programs print durations."""
    units = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    parts = re.findall(r"([\d.]+)(h|ms|us|ns|m|s)", text)
    if not parts:
        raise ValueError(f"no duration: {text!r}")
    return sum(float(number) * units[unit] for number, unit in parts)


def tree_bytes(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def train_once(options, data, mode):
    with programs.Programs(options.bin_dir) as started:
        cluster = Cluster(started, mode)
        report = programs.finish_json(cluster.train(options, data, "modes"), TRAIN_SECONDS)
    return report["samples_per_second"]


def measure_modes(options, data):
    speeds = {mode: [] for mode in MODES}
    for turn in range(options.rounds):
        for mode in MODES:
            speeds[mode].append(train_once(options, data, mode))
            say(f"  round {turn + 1} of {options.rounds}, {mode}: {speeds[mode][-1]:,.0f} samples/s")
    base = speeds["checkpoint"]
    return {mode: {
        "samples_per_second": measurement.median(values),
        "spread": measurement.spread(values),
        "repeats": len(values),
        "relative": measurement.median([one / other for one, other in zip(values, base)]),
    } for mode, values in speeds.items()}


def checkpoints_during(cluster, trainer, enough=None):
    """One checkpoint after the other while the trainer runs, up to `enough`; those of rows."""
    taken = []
    while (trainer.running() or not taken) and len(taken) != enough:
        one = cluster.checkpoint()
        # The first may come before the trainer has made its model.
        if one["rows"] > 0:
            taken.append(one)
            say(f"  {one['kind']}: changes waited {one['stall_seconds']:.4f} s, "
                f"{one['written_bytes'] / 1e9:.2f} GB in {one['seconds']:.1f} s")
    return taken


def measure_checkpoints(options, data, plain_speed):
    with programs.Programs(options.bin_dir) as started:
        cluster = Cluster(started, "checkpoint")
        trainer = cluster.train(options, data, "checkpoints")
        taken = checkpoints_during(cluster, trainer)
        report = programs.finish_json(trainer, TRAIN_SECONDS)
    samples = report["samples_per_second"] * report["seconds"]
    lost = (report["seconds"] - samples / plain_speed) / len(taken)
    cost = measurement.median([one["seconds"] for one in taken])
    interval = max(LEAST_INTERVAL_SECONDS, (2 * cost * FAILURE_SECONDS) ** 0.5)
    stalls = sorted(one["stall_seconds"] for one in taken)
    return {
        "taken": len(taken),
        "bytes": taken[0]["bytes"],
        "written_bytes": measurement.median([one["written_bytes"] for one in taken]),
        "stall_median_seconds": measurement.median(stalls),
        "stall_max_seconds": stalls[-1],
        "seconds": cost,
        "training_seconds_lost": lost,
        "default_interval_seconds": interval,
        "share_of_training": lost / interval,
    }


def measure_cuts(options):
    """How long changes wait at cuts of CUT_SHARDS shards with options.gib of rows on each."""
    rows = int(CUT_SHARDS * options.gib * GIB / increments.RECORD_BYTES)
    with programs.Programs(options.bin_dir) as started:
        data = started.data([*options.inputs, "--labels", rows])
        cluster = Cluster(started, "checkpoint", CUT_SHARDS)
        trainer = cluster.train(options, data, "cuts", steps=CUT_STEPS)
        taken = checkpoints_during(cluster, trainer, options.cuts)
        trainer.stop(signal.SIGKILL)
        frozen = cluster.frozen_seconds()[-len(taken):]
    waits = sorted(one["stall_seconds"] for one in taken)
    return {
        "shards": CUT_SHARDS,
        "rows": rows,
        "taken": len(taken),
        "bytes": taken[-1]["bytes"],
        "stall_median_seconds": measurement.median(waits),
        "stall_max_seconds": waits[-1],
        "frozen_max_seconds": max(frozen),
    }


def measure_increments(options):
    with programs.Programs(options.bin_dir) as started:
        figures = increments.measure(started.directory, options.gib, CHANGED, options.rounds)
    for kind in ("full", "incremental"):
        say(f"  {kind}: {figures[kind]['seconds_per_gib']:.2f} s per GiB of table, "
            f"{figures[kind]['gb_per_second']:.2f} GB/s")
    return figures


def measure_restart(options, data):
    with programs.Programs(options.bin_dir) as started:
        cluster = Cluster(started, "log")
        programs.finish_json(cluster.train(options, data, "restart"), TRAIN_SECONDS)
        image = cluster.restart(0, signal.SIGTERM)
        images = sorted((cluster.data_dir(0) / "command_log" / "images").glob("log-*"))
        size = tree_bytes(images[-1])
        programs.finish_json(cluster.train(options, data, "replay"), TRAIN_SECONDS)
        replay = cluster.restart(0, signal.SIGKILL)
    say(f"  restart: {image['seconds']:.1f} s for an image of {size / GIB:.2f} GiB; "
        f"{replay['seconds']:.1f} s with {replay['records']:,} records")
    return {
        "image_bytes": size,
        "image_seconds": image["seconds"],
        "image_seconds_per_gib": image["seconds"] / (size / GIB),
        "replayed_records": replay["records"],
        "replay_seconds": max(0.0, replay["seconds"] - image["seconds"]),
    }


def lines(result):
    for mode, figures in result["modes"].items():
        yield (f"{mode:>14} {figures['samples_per_second']:>10,.0f} samples/s, "
               f"{figures['relative']:.3f} of mode checkpoint")
    taken = result["checkpoints"]
    yield (f"{'checkpoints':>14} {taken['taken']} of {taken['bytes'] / 1e9:.2f} GB: changes waited "
           f"{taken['stall_median_seconds']:.4f} s (at most {taken['stall_max_seconds']:.4f}), "
           f"{taken['training_seconds_lost']:.2f} s of training each, "
           f"{100 * taken['share_of_training']:.1f} % at the default interval of "
           f"{taken['default_interval_seconds']:.0f} s")
    cuts = result["cuts"]
    yield (f"{'cuts':>14} {cuts['taken']} of {cuts['bytes'] / 1e9:.2f} GB on {cuts['shards']} shards: "
           f"changes waited {cuts['stall_median_seconds']:.4f} s "
           f"(at most {cuts['stall_max_seconds']:.4f}), shards were frozen for at most "
           f"{cuts['frozen_max_seconds']:.4f} s")
    for kind in ("full", "incremental"):
        figures = result["increments"][kind]
        yield (f"{kind:>14} {figures['seconds_per_gib']:.2f} s per GiB of table, "
               f"{figures['gb_per_second']:.2f} GB/s")
    restart = result["restart"]
    yield (f"{'restart':>14} {restart['image_seconds_per_gib']:.1f} s per GiB of image, then "
           f"{restart['replay_seconds']:.1f} s for {restart['replayed_records']:,} records")
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("--steps", type=int, help="steps of each training")
    parser.add_argument("--rounds", type=int, help="turns of the modes, and full checkpoints")
    parser.add_argument("--model", type=pathlib.Path,
                        default=programs.ROOT / "docs/models/wide-670k-adam.json")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.model = options.model.resolve()
    options.inputs = ["--features", 2000, "--points", 2000] if options.quick else []
    options.shape = [*options.inputs, "--labels", 5000] if options.quick else []
    options.steps = options.steps or (20 if options.quick else 600)
    options.rounds = options.rounds or (1 if options.quick else 6)
    options.gib = 0.01 if options.quick else CUT_GIB
    options.cuts = 2 if options.quick else CUTS
    return options


def main():
    options = parse()
    with programs.Programs(options.bin_dir) as started:
        data = started.data(options.shape)
        machine = started.run_json("dslide-bench", "machine", within=20)
    foreign = measurement.ForeignLoad()
    say("Modes of durability")
    modes = measure_modes(options, data)
    say("Checkpoints")
    checkpoints = measure_checkpoints(options, data, modes["checkpoint"]["samples_per_second"])
    say("Cuts of large shards")
    cuts = measure_cuts(options)
    say("Increments")
    grown = measure_increments(options)
    say("Restarts")
    result = {
        "modes": modes,
        "checkpoints": checkpoints,
        "cuts": cuts,
        "increments": grown,
        "restart": measure_restart(options, data),
        "shards": SHARDS,
        "steps": options.steps,
        "repeats": options.rounds,
        "spread": max(figures["spread"] for figures in modes.values()),
        "quick": options.quick,
    } | machine | {"foreign_load": foreign.processors()}
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
