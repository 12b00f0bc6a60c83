"""The trainings of a set: with the papers' settings, without a spec, and with all rows active."""

import dataclasses
import json
import pathlib
import re

import measured_child
import samples
from compared_tools import DSLIDE_ENVIRONMENT
from measured_child import LeftOut
from measurement import say
from programs import processes
from published_sets import Found, Settings

# Of the labels, active in a training step (Chen et al. 2020, sec. 5: "0.5 % of the neurons").
ACTIVE_SHARE = 0.005
_LEAST_ACTIVE = 50
_RATE = 1e-4  # of Adam, in the papers
MOST_TABLES = 256  # of dslide
_REBUILD_STEPS = 50  # the first interval in the papers, which widen it as they go
_DENSE_STEPS = 2

TITLES = {
    "papers": "dslide, the papers' settings",
    "default": "dslide, no spec",
    "dense": "dslide, all rows active",
}


@dataclasses.dataclass(frozen=True)
class Limits:
    points: int | None  # of training; None: all
    test_points: int
    epochs: int
    seconds: float  # of a training with its evaluation


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A set as it is trained: both files on disk, no larger than was asked for."""

    train: pathlib.Path
    test: pathlib.Path
    is_text: bool
    points: int
    features: int
    labels: int
    limits: Limits

    @staticmethod
    def of(found: Found, folder: pathlib.Path, limits: Limits) -> "Prepared":
        """Works in the empty `folder`. Raises ValueError where the files are not of the format."""
        if found.is_text:
            train, test = samples.split_text(found.train, limits.points, limits.test_points, folder)
            shape = samples.text_shape(train)
        else:
            train = samples.thin(found.train, limits.points, folder / "train.txt")
            test = samples.thin(found.test, limits.test_points, folder / "test.txt")
            shape = samples.header(train)
        return Prepared(train, test, found.is_text, *shape, limits)


def spec_of(name: str, settings: Settings, labels: int, hashed: bool) -> dict:
    """The model spec of a paper's settings; not `hashed`: the same with all rows active."""
    adam = {"kind": "adam", "learning_rate": _RATE}
    width = {"dim": settings.hidden, "optimizer": adam}
    head: dict = {"loss": "softmax", "max_active": 0, "tail_rows": 0}
    if hashed:
        head["max_active"] = max(_LEAST_ACTIVE, round(ACTIVE_SHARE * labels))
        head["hash"] = {
            "family": settings.family,
            "codes_per_table": settings.codes_per_table,
            "num_tables": min(settings.num_tables, MOST_TABLES),
            "rebuild_every_steps": _REBUILD_STEPS,
        }
    return {
        "name": re.sub(r"[^a-z0-9-]", "-", name.lower()),
        "tables": [
            {"name": "input", "role": "embedding", "bias_row": True} | width,
            {"name": "labels", "role": "head", "head": head} | width,
        ],
        "training": {
            "transform": "l2",
            "batch_size": settings.batch,
            "validation_fraction": 0,
            "patience_epochs": 0,
        },
    }


def _train(prepared: Prepared, folder: pathlib.Path, flags: list[object]) -> dict:
    text = ["--text", "--window", 2, "--min-count", 1] if prepared.is_text else []
    files = ["--data", prepared.train, "--eval", prepared.test]
    command = [processes.bin_dir() / "dslide", "train", "-q", "-o", "json", *text, *files, *flags]
    usage = measured_child.run(command, folder, prepared.limits.seconds, DSLIDE_ENVIRONMENT)
    report = json.loads(usage.stdout.splitlines()[-1])
    fields = ("p_at_1", "p_at_3", "p_at_5", "seconds", "samples_per_second")
    return {name: report[name] for name in fields} | {
        # Components count neither.
        "epochs": report["epochs"] or None,
        "active_rows_per_sample": report["active_rows_per_sample"] or None,
        "wall_seconds": usage.wall_seconds,
        "cpu_seconds": usage.cpu_seconds,
        "peak_rss_bytes": usage.peak_rss_bytes,
    }


def _with_spec(prepared: Prepared, folder: pathlib.Path, spec: dict) -> dict:
    model = folder / "spec.json"
    model.write_text(json.dumps(spec), encoding="ascii")
    return _train(prepared, folder, ["--model", model, "--epochs", prepared.limits.epochs])


def _dense(prepared: Prepared, folder: pathlib.Path, settings: Settings, spec: dict) -> dict:
    """Only where a few steps of the dense baseline say that it ends within the limit."""
    if prepared.is_text:
        raise LeftOut("the dense baseline reads no plain text")
    flags = {"--data": prepared.train, "--hidden": settings.hidden, "--batch": settings.batch}
    words = [word for pair in flags.items() for word in pair]
    command = [processes.bin_dir() / "dslide-bench", "dense", *words, "--steps", _DENSE_STEPS]
    usage = measured_child.run(
        [*command, "-o", "json"], folder, prepared.limits.seconds, DSLIDE_ENVIRONMENT
    )
    speed = json.loads(usage.stdout.splitlines()[-1])["samples_per_second"]
    expected = prepared.limits.epochs * prepared.points / speed
    if expected > prepared.limits.seconds:
        raise LeftOut(
            f"{speed:,.0f} samples/s of the dense baseline: {expected:,.0f} s, "
            f"the limit is {prepared.limits.seconds:,.0f} s"
        )
    return _with_spec(prepared, folder, spec)


def run(key: str, name: str, settings: Settings, prepared: Prepared, folder: pathlib.Path) -> dict:
    """Figures of one of TITLES, or {"left_out": why}. Works in the empty `folder`."""
    try:
        if key == "default":
            figures = _train(prepared, folder, [])
        else:
            spec = spec_of(name, settings, prepared.labels, hashed=key == "papers")
            if key == "papers":
                figures = _with_spec(prepared, folder, spec)
            else:
                figures = _dense(prepared, folder, settings, spec)
    except (LeftOut, ValueError, KeyError) as why:
        say(f"  left out: {TITLES[key]}: {why}")
        return {"left_out": str(why)}
    say(f"  {TITLES[key]}: P@1 {figures['p_at_1']:.4f}, {figures['wall_seconds']:.1f} s")
    return figures
