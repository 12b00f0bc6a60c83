"""Reads the sparse text of docs/start/data.md, with the standard library alone."""

import dataclasses
import pathlib


@dataclasses.dataclass
class Points:
    """One file: of each point its labels, its features and their values, in the file's order."""

    features: int
    labels: int
    label_ids: list[list[int]]
    feature_ids: list[list[int]]
    values: list[list[float]]


def read(path: pathlib.Path) -> Points:
    """ValueError, with file and line, where it is no such file."""
    with open(path, encoding="ascii") as file:
        header = file.readline().split()
        if len(header) != 3 or not all(word.isdigit() for word in header):
            raise ValueError(f"{path}:1: {' '.join(header)!r} instead of 'points features labels'")
        points, features, labels = map(int, header)
        result = Points(features, labels, [], [], [])
        for number, line in enumerate(file, 2):
            try:
                _append(result, line.rstrip("\n"))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    if len(result.label_ids) != points:
        raise ValueError(f"{path}: {len(result.label_ids)} points, its first line says {points}")
    return result


def _append(points: Points, line: str) -> None:
    # A line that begins with a blank is a point without a label.
    labels, *pairs = line.replace("\t", " ").split(" ")
    split = [pair.partition(":") for pair in pairs if pair]
    points.label_ids.append([int(label) for label in labels.split(",") if label])
    points.feature_ids.append([int(feature) for feature, _, _ in split])
    points.values.append([float(value) for _, _, value in split])
