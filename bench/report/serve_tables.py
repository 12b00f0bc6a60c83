"""The result of `./run bench serve` as a table."""

import tables

REQUESTS = {"exact": "exact", "hashed": "hashed", "exact_batch": "exact, batch",
            "hashed_batch": "hashed, batch", "neighbours": "neighbours",
            "neighbours_batch": "neighbours, batch"}


def serve(result):
    """A row for each kind of request; then what hashing finds."""
    rows = []
    for key, name in REQUESTS.items():
        figures = result.get(key)
        if figures is None:
            continue
        share = figures.get("bandwidth_share")
        rows.append([name, str(figures["queries_per_request"]), f"{figures['p50_ms']:.3f}",
                     f"{figures['p99_ms']:.3f}", tables.number(figures["scored_rows"]),
                     "" if share is None else f"{100 * share:.0f} %"])
    table = tables.table(["request", "queries", "p50, ms", "p99, ms", "rows scored a query",
                          "of the memory's speed"], rows)
    if "neighbours" in result:
        return table + (f"\n\n{result['data']}: {tables.number(result['rows'])} labels scored by a "
                        "memory, one thread.")
    return table + (
        f"\n\n{result['data']}: {tables.number(result['rows'])} rows of {result['dim']} numbers, one thread, "
        f"{result['memory_bytes_per_second'] / 1e9:.1f} GB/s. recall@{result['k']} of hashed "
        f"against exact: {result['recall_at_k']:.4f}")
