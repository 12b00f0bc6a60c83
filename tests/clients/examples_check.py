"""The programs of client/examples say what `dslide predict` says, and end with a reason when they cannot.

usage: examples_check.py --bin-dir DIR [unittest arguments]
"""

import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import example_builds  # noqa: E402
import processes  # noqa: E402

OK, FAILURE = 0, 1
SHAPE = ["--features", 300, "--labels", 400, "--seed", 7]
POINTS = 600
# All rows are active and nothing is left to chance, so that every run trains the same model.
SETTINGS = ["--dim", 24, "--epochs", 2, "--batch-size", 64, "--in-flight", 1, "--threads", 1,
            "--max-active", 0, "--learning-rate", 0.01, "--validation-fraction", 0]
# Two that differ in all that prediction depends on.
MODELS = {"single": ["--activations", "f32", "--transform", "l2"],
          "half": ["--activations", "bf16", "--transform", "raw"]}
# So that owners of slots do not just take turns.
CAPACITIES = (1, 2.7, 0.6)
CHANGED_ROWS = 10


def scaled(features):
    """feature:value words, with the values as L2 makes them."""
    pairs = [word.split(":") for word in features]
    length = math.hypot(*(float(value) for _, value in pairs))
    return [f"{feature}:{float(value) / length}" for feature, value in pairs]


class Examples:
    """The tests of one language."""

    LANGUAGE = None

    def setUp(self):
        missing = example_builds.missing_tools(self.LANGUAGE)
        if missing:
            self.skipTest(f"{' and '.join(missing)} not found: the {self.LANGUAGE.name} example "
                          "is neither built nor run")
        super().setUp()
        self.command = example_builds.command_of(self.LANGUAGE)
        self.train_data = self.generate("train.txt", 0, POINTS)
        self.point = self.generate("point.txt", POINTS, 1)

    def generate(self, name, first, count):
        path = self.directory / name
        self.assert_ended(self.run_dslide("data", "gen", "--output", path, "--points", count,
                                          "--first-point", first, *SHAPE), OK)
        return path

    def start_shards(self, flags_of=lambda role: []):
        coordinator = self.start_coordinator(*flags_of("coordinator"), shards=len(CAPACITIES))
        for shard, capacity in enumerate(CAPACITIES):
            self.start_shard(coordinator, "--shard-id", shard, "--threads", 1,
                             "--capacity-weight", capacity, *flags_of("shard"))
        return coordinator

    def train(self, coordinator, name, *flags):
        self.assert_ended(self.run_dslide(
            "train", "-q", "-o", "json", "--cluster", coordinator.address, "--job", name, "--name",
            name, "--data", self.train_data, *SETTINGS, *MODELS[name], *flags), OK)

    def run_example(self, coordinator, model, *flags):
        features = self.point.read_text(encoding="ascii").splitlines()[1].split(" ")[1:]
        if "l2" in MODELS.get(model, []):
            features = scaled(features)
        program, *arguments = self.command
        return self.start(program, *arguments, "--address", coordinator.address, "--model", model,
                          "--features", ",".join(features), *flags).finish()

    def assert_agrees(self, coordinator, model, flags=(), example_flags=()):
        """The example's labels are those of `dslide predict`, and its logits nearly so."""
        predicted = self.run_dslide("predict", "-o", "json", "--cluster", coordinator.address,
                                    "--name", model, "--data", self.point, *flags)
        self.assert_ended(predicted, OK)
        example = self.run_example(coordinator, model, *example_flags)
        self.assert_ended(example, OK)
        said, expected = example.json(), predicted.json()["predictions"]
        self.assertEqual(said["model"], model)
        self.assertEqual(said["shards"], len(CAPACITIES))
        self.assertEqual(said["rows_changed"], CHANGED_ROWS)
        self.assertEqual([best["label"] for best in said["predictions"]],
                         [best["label"] for best in expected], f"{example}\n{predicted}")
        for mine, theirs in zip(said["predictions"], expected):
            self.assertAlmostEqual(mine["logit"], theirs["logit"], delta=1e-3)

    def test_it_predicts_what_the_program_does(self):
        coordinator = self.start_shards()
        for model in MODELS:
            self.train(coordinator, model)
            self.assert_agrees(coordinator, model)
        self.assert_ended(self.run_example(coordinator, "unheard-of"), FAILURE,
                          r'NOT_FOUND UNKNOWN_MODEL: .*"unheard-of"')

    def test_it_shows_its_certificate(self):
        certificates, foreign = self.directory / "certificates", self.directory / "foreign"
        for directory in (certificates, foreign):
            self.assert_ended(self.run_dslide("certs", "dev", "--output", directory), OK)

        def flags_of(role, prefix="--tls-", directory=certificates):
            return [f"{prefix}ca", certificates / "ca.crt", f"{prefix}cert",
                    directory / f"{role}.crt", f"{prefix}key", directory / f"{role}.key"]

        coordinator = self.start_shards(flags_of)
        self.train(coordinator, "half", *flags_of("trainer"))
        self.assert_agrees(coordinator, "half", flags_of("trainer"), flags_of("trainer", "--"))
        # A role that may not say Hello, and a certificate of an authority that nobody knows.
        self.assert_ended(self.run_example(coordinator, "half", *flags_of("reader", "--")),
                          FAILURE, r"PERMISSION_DENIED -: .*role reader may not call")
        self.assert_ended(
            self.run_example(coordinator, "half", *flags_of("trainer", "--", foreign)),
            FAILURE, r"error: UNAVAILABLE -: \S")


class NodeTest(Examples, processes.ProcessTest):
    LANGUAGE = example_builds.NODE


class GoTest(Examples, processes.ProcessTest):
    LANGUAGE = example_builds.GO


class JavaTest(Examples, processes.ProcessTest):
    LANGUAGE = example_builds.JAVA


if __name__ == "__main__":
    processes.main()
