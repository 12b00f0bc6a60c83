"""What the tests of whole trainings share: data, runs, and what their figures may differ by."""

import collections
import dataclasses
import math
import pathlib

SHARDS = 4
TRAINERS = 2


@dataclasses.dataclass(frozen=True)
class DataSet:
    train: pathlib.Path
    test: pathlib.Path

    def flags(self):
        return ["--data", self.train, "--eval", self.test]

    def test_points(self):
        with open(self.test, encoding="ascii") as lines:
            return int(lines.readline().split()[0])

    def most_frequent_precision(self):
        """P@1 on the test points of always answering the most frequent training label."""
        counts = collections.Counter(
            label for labels in _labels_of_points(self.train) for label in labels)
        best = counts.most_common(1)[0][0]
        hits = [best in labels for labels in _labels_of_points(self.test)]
        return sum(hits) / len(hits)


def _labels_of_points(path):
    with open(path, encoding="ascii") as lines:
        next(lines)
        for line in lines:
            yield line.partition(" ")[0].split(",")


def generate(test, points=8000, features=2000, labels=3000, test_points=4000):
    """A generated task and later points of it, which are in no training part."""
    data = DataSet(test.directory / "train.txt", test.directory / "test.txt")
    shape = ["--features", features, "--labels", labels, "--seed", 7]
    for path, first, count in ((data.train, 0, points), (data.test, points, test_points)):
        made = test.run_dslide("data", "gen", "--output", path, "--points", count,
                               "--first-point", first, *shape)
        test.assert_ended(made, 0)
    return data


def train_embedded(test, data, settings, within=None):
    """The JSON result of a training inside one process, with as many shards as the cluster.

    `within`: as that of processes.Process.finish().
    """
    finished = test.run_dslide("train", "-q", "-o", "json", "--shards", SHARDS, *data.flags(),
                               *settings, within=within)
    test.assert_ended(finished, 0)
    return finished.json()


def train_on_cluster(test, cluster, data, settings, within=None):
    """The JSON results of trainers that are processes and share one job."""
    trainers = [
        test.start("dslide", "train", "-q", "-o", "json", "--cluster", cluster.address,
                   "--job", "shared", *data.flags(), *settings)
        for _ in range(TRAINERS)
    ]
    results = []
    for trainer in trainers:
        finished = trainer.finish(within)
        test.assert_ended(finished, 0)
        results.append(finished.json())
    return results


def bytes_moved(results):
    return sum(result["bytes_sent"] + result["bytes_received"] for result in results)


def precision_tolerance(precision, points):
    """How far apart the P@1 of two equally good models may be on so many test points.

    A point is a hit with probability p, so P@1 over n points has the variance p (1 - p) / n, and
    the difference of two models at most twice that (their hits go together, which lowers it).
    Four standard deviations: a false alarm in 16,000 runs.
    """
    return 4 * math.sqrt(2 * precision * (1 - precision) / points)
