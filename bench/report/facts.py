"""What may be true of the results: the page's sentences are chosen by it.

Each function takes the results and returns True or False, and None when its figures were not
measured.
"""

from page import lookup
from tables import SECTIONS, tenfold_cost


def _points(results, curve):
    return (lookup(results, f"growth.curves.{curve}.points") or [])


def _relative_change(results, curve):
    """Samples per second at the last point of a curve, relative to the first."""
    points = _points(results, curve)
    if len(points) < 2:
        return None
    return points[-1]["samples_per_second"] / points[0]["samples_per_second"]


def _compare(value, test):
    return None if value is None else test(value)


def _above(results, path, bound):
    return _compare(lookup(results, path), lambda value: value > bound)


def slow_link_binds(results):
    """A tenth of the bandwidth costs more than a tenth of the speed."""
    fast = lookup(results, "cluster.samples_per_second_1gbit")
    slow = lookup(results, "cluster.samples_per_second_100mbit")
    return None if fast is None or slow is None else slow < 0.9 * fast


def dense_communicates_more(results):
    """The dense workers' all-reduce takes longer than their arithmetic."""
    compute = lookup(results, "cluster.dense.compute_seconds")
    communicate = lookup(results, "cluster.dense.all_reduce_seconds")
    return None if compute is None or communicate is None else communicate > compute


def load_was_high(results):
    """Something else kept a tenth of a processor busy during some benchmark."""
    loads = [result["foreign_load"] for result in results.values()
             if result.get("foreign_load") is not None]
    return max(loads) > 0.1 if loads else None


def page_has_several_commits(results):
    commits = {result.get("commit") for result in results.values()}
    return len(commits) > 1 if commits else None


def rpc_paced(results):
    """The machine's TCP paces, and calls were measured without that, too."""
    return None if "rpc" not in results else results["rpc"].get("as_set") is not None


def rows_cost_speed(results):
    return _compare(_relative_change(results, "rows"), lambda change: change < 0.8)


def distinct_rows_grow(results):
    """The distinct rows of a step grow along the curve of rows."""
    points = _points(results, "rows")
    if len(points) < 2:
        return None
    return points[-1]["distinct_rows_per_batch"] > 1.25 * points[0]["distinct_rows_per_batch"]


def _tenfold_is_cheap(results, curve):
    """What ten times the rows cost is less than our aim, wherever the curve has both."""
    points = _points(results, curve)
    costs = [cost for cost in (tenfold_cost(points, point) for point in points) if cost is not None]
    return max(costs) < 1.6 if costs else None


def rows_tenfold_is_cheap(results):
    return _tenfold_is_cheap(results, "rows")


def compact_tenfold_is_cheap(results):
    return _tenfold_is_cheap(results, "compact")


def measured_compact(results):
    return True if _points(results, "compact") else None


def hidden_costs_speed(results):
    return _compare(_relative_change(results, "hidden"), lambda change: change < 0.8)


def shards_cost_speed(results):
    return _compare(_relative_change(results, "shards"), lambda change: change < 0.8)


def trainers_gain_speed(results):
    return _compare(_relative_change(results, "trainers"), lambda change: change > 1.1)


def memory_as_planned(results):
    """Every shard's peak memory is within 5 % of what was planned."""
    ratios = [case["bytes_against_plan"]
              for case in (lookup(results, "capacity.cases") or {}).values()
              if "left_out" not in case]
    return all(abs(ratio - 1) <= 0.05 for ratio in ratios) if ratios else None


def faster_than_dense(results):
    return _above(results, "train.speedup_vs_dense", 1.0)


FACTS = [rpc_paced, slow_link_binds, dense_communicates_more, load_was_high, page_has_several_commits,
         rows_cost_speed, distinct_rows_grow, rows_tenfold_is_cheap, compact_tenfold_is_cheap,
         hidden_costs_speed, shards_cost_speed, trainers_gain_speed, memory_as_planned, faster_than_dense]


def of(results):
    """{name: True, False or None}, with "measured_NAME" for each benchmark that has a result."""
    measured = {f"measured_{name}": True if name in results else None for name in SECTIONS}
    measured["measured_compact"] = measured_compact(results)
    return measured | {fact.__name__: fact(results) for fact in FACTS}
