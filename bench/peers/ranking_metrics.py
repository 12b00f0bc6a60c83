"""P@k and PSP@k of ranked labels: the same function for every tool, so that none is favoured.

Labels are ids from 0. A ranking is a point's labels, the best first; what is not ranked is missed.
Points without a label leave nothing to predict and do not count, as in `dslide eval`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

AT = (1, 3, 5)
# Of the propensity model, for sets without constants of their own: Jain, Prabhu, Varma 2016,
# doi:10.1145/2939672.2939756, section 4.
_A, _B = 0.55, 1.5


def inverse_propensity(train: Iterable[Sequence[int]]) -> Callable[[int], float]:
    """label -> 1 / propensity, from the labels of the training points.

    1 / p_l = 1 + C (N_l + B)^-A, C = (ln N - 1) (B + 1)^A; N_l of N points carry l. A label that no
    training point carries has N_l = 0.
    """
    points = 0
    counts: Counter[int] = Counter()
    for labels in train:
        points += 1
        counts.update(labels)
    if points < 3:
        raise ValueError(f"{points} training points: propensities need 3 (ln N > 1)")
    c = (math.log(points) - 1) * (_B + 1) ** _A
    return lambda label: 1 + c * (counts[label] + _B) ** -_A


def check(ranking: Sequence[int], labels: int) -> None:
    """ValueError where a tool ranked a label twice or one that does not exist."""
    wrong = [label for label in ranking if not 0 <= label < labels]
    if wrong:
        raise ValueError(f"ranked label {wrong[0]}, labels are in [0, {labels})")
    if len(set(ranking)) < len(ranking):
        raise ValueError(f"ranked a label twice: {list(ranking)}")


def score(
    ranked: Sequence[Sequence[int]], truth: Sequence[Sequence[int]], inverse: Callable[[int], float]
) -> dict[str, float]:
    """{"p_at_1", ..., "psp_at_1", ...} in 0..1.

    PSP@k is the sum of the hits' inverse propensities over all points, relative to the largest sum
    that k labels a point could reach.
    """
    if len(ranked) != len(truth):
        raise ValueError(f"{len(ranked)} rankings of {len(truth)} test points")
    pairs = [(ranking, set(labels)) for ranking, labels in zip(ranked, truth) if labels]
    if not pairs:
        raise ValueError("no test point has a label")
    result = {}
    for k in AT:
        hits = [[label for label in ranking[:k] if label in labels] for ranking, labels in pairs]
        best = [sorted(map(inverse, labels), reverse=True)[:k] for _, labels in pairs]
        result[f"p_at_{k}"] = sum(map(len, hits)) / (k * len(pairs))
        result[f"psp_at_{k}"] = math.fsum(
            inverse(label) for mine in hits for label in mine
        ) / math.fsum(value for mine in best for value in mine)
    return result
