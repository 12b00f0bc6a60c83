"""The programs of client/examples say what `dslide predict` says, and end with a reason when they
cannot. Part of ./run clients.
"""

import math
import pathlib
from collections.abc import Callable, Sequence

import example_builds
import pytest
from processes import Finished, Programs, Server, assert_ended
from pytest import approx

OK, FAILURE = 0, 1
SHAPE = ("--features", 300, "--labels", 400, "--seed", 7)
POINTS = 600
# All rows are active and nothing is left to chance, so that every run trains the same model.
SETTINGS = ("--dim", 24, "--epochs", 2, "--batch-size", 64, "--in-flight", 1, "--threads", 1,
            "--max-active", 0, "--learning-rate", 0.01, "--validation-fraction", 0)
# Two that differ in all that prediction depends on.
MODELS = {"single": ("--activations", "f32", "--transform", "l2"),
          "half": ("--activations", "bf16", "--transform", "raw")}
# So that owners of slots do not just take turns.
CAPACITIES = (1, 2.7, 0.6)
CHANGED_ROWS = 10
Flags = Sequence[object]


def scaled(features: list[str]) -> list[str]:
    """feature:value words, with the values as L2 makes them."""
    pairs = [word.split(":") for word in features]
    length = math.hypot(*(float(value) for _, value in pairs))
    return [f"{feature}:{float(value) / length}" for feature, value in pairs]


class Example:
    """The program of one language, and the data that it is shown."""

    def __init__(self, programs: Programs, command: list[str]) -> None:
        self.programs, self.command = programs, command
        self.train_data = self.generate("train.txt", 0, POINTS)
        self.point = self.generate("point.txt", POINTS, 1)

    def generate(self, name: str, first: int, count: int) -> pathlib.Path:
        path = self.programs.directory / name
        assert_ended(self.programs.run_dslide(
            "data", "gen", "--output", path, "--points", count, "--first-point", first, *SHAPE),
            OK)
        return path

    def start_shards(self, flags_of: Callable[[str], Flags] = lambda role: ()) -> Server:
        coordinator = self.programs.start_coordinator(
            *flags_of("coordinator"), shards=len(CAPACITIES))
        for shard, capacity in enumerate(CAPACITIES):
            self.programs.start_shard(coordinator, "--shard-id", shard, "--threads", 1,
                                      "--capacity-weight", capacity, *flags_of("shard"))
        return coordinator

    def train(self, coordinator: Server, name: str, *flags: object) -> None:
        assert_ended(self.programs.run_dslide(
            "train", "-q", "-o", "json", "--cluster", coordinator.address, "--job", name,
            "--name", name, "--data", self.train_data, *SETTINGS, *MODELS[name], *flags), OK)

    def run(self, coordinator: Server, model: str, *flags: object) -> Finished:
        features = self.point.read_text(encoding="ascii").splitlines()[1].split(" ")[1:]
        if "l2" in MODELS.get(model, ()):
            features = scaled(features)
        return self.programs.start(
            *self.command, "--address", coordinator.address, "--model", model, "--features",
            ",".join(features), *flags).finish()

    def assert_agrees(self, coordinator: Server, model: str, flags: Flags = (),
                      example_flags: Flags = ()) -> None:
        """Its labels are those of `dslide predict`, and its logits nearly so."""
        predicted = self.programs.run_dslide(
            "predict", "-o", "json", "--cluster", coordinator.address, "--name", model, "--data",
            self.point, *flags)
        assert_ended(predicted, OK)
        example = self.run(coordinator, model, *example_flags)
        assert_ended(example, OK)
        said, expected = example.json(), predicted.json()["predictions"]
        assert [said[name] for name in ("model", "shards", "rows_changed")] == [
            model, len(CAPACITIES), CHANGED_ROWS]
        for name, tolerance in (("label", 0), ("logit", 1e-3)):
            theirs = [best[name] for best in expected]
            assert [best[name] for best in said["predictions"]] == approx(theirs, abs=tolerance)


@pytest.fixture(params=example_builds.LANGUAGES, ids=lambda language: language.name)
def example(request: pytest.FixtureRequest, bin_dir: pathlib.Path, programs: Programs) -> Example:
    language = request.param
    missing = example_builds.missing_tools(language)
    if missing:
        pytest.skip(f"{' and '.join(missing)} not found: the {language.name} example is neither "
                    "built nor run")
    return Example(programs, example_builds.command_of(language))


def test_it_predicts_what_the_program_does(example: Example) -> None:
    coordinator = example.start_shards()
    for model in MODELS:
        example.train(coordinator, model)
        example.assert_agrees(coordinator, model)
    assert_ended(example.run(coordinator, "unheard-of"), FAILURE,
                 r'NOT_FOUND UNKNOWN_MODEL: .*"unheard-of"')


def test_it_shows_its_certificate(example: Example) -> None:
    own, foreign = (example.programs.directory / name for name in ("certificates", "foreign"))
    for folder in (own, foreign):
        assert_ended(example.programs.run_dslide("certs", "dev", "--output", folder), OK)

    def flags_of(role: str, prefix: str = "--tls-", folder: pathlib.Path = own) -> Flags:
        return (f"{prefix}ca", own / "ca.crt", f"{prefix}cert", folder / f"{role}.crt",
                f"{prefix}key", folder / f"{role}.key")

    coordinator = example.start_shards(flags_of)
    example.train(coordinator, "half", *flags_of("trainer"))
    example.assert_agrees(coordinator, "half", flags_of("trainer"), flags_of("trainer", "--"))
    # A role that may not say Hello, and a certificate of an authority that nobody knows.
    for flags, said in (
            (flags_of("reader", "--"), r"PERMISSION_DENIED -: .*role reader may not call"),
            (flags_of("trainer", "--", foreign), r"error: UNAVAILABLE -: \S")):
        assert_ended(example.run(coordinator, "half", *flags), FAILURE, said)
