"""The result of `./run bench torch` as tables."""

import tables


def torch(result):
    """What was measured of equality, accuracy at a speed, and a very wide layer."""
    parts = {"equal": equal, "learn": learn, "wide": wide}
    return "\n\n".join(show(result[part]) for part, show in parts.items() if part in result)


def equal(figures):
    rows = []
    for kind, found in figures["optimizers"].items():
        worst = found["largest_differences"]
        rows.append(
            [
                kind.upper() if kind == "sgd" else kind.capitalize(),
                f"{worst['loss']:.1e}",
                f"{worst['hidden_gradient']:.1e}",
                f"{worst['relative_hidden_gradient']:.1e}",
                f"{found['exported_logits']:.1e}",
                tables.percent(found["imported_top_10"]),
            ]
        )
    title = (
        f"all rows active, {tables.number(figures['labels'])} labels, {figures['steps']} steps: "
        "largest difference"
    )
    return tables.table(
        [
            title,
            "loss",
            "gradient of the hidden",
            "relative to its largest",
            "exported logits, relative",
            "imported: equal top 10",
        ],
        rows,
    )


def _sides(figures, titles):
    return [
        [
            titles.get(name, name),
            tables.number(side["samples_per_second"]),
            f"{side['cpu_seconds_per_thousand']:.3f}",
            f"{side['p_at_1']:.4f}" if "p_at_1" in side else "",
        ]
        for name, side in figures["sides"].items()
    ]


def _summary(figures, beside):
    return (
        f"The hashed head is {figures['speedup']:.1f} times as fast as {beside} by the clock, "
        f"{figures['cpu_speedup']:.1f} times in processor time of all processes."
    )


def learn(figures):
    rows = _sides(figures, {"dense": "`nn.Linear`, cross-entropy", "hashed": "hashed, on shards"})
    title = f"{tables.number(figures['labels'])} labels, {tables.number(figures['points'])} points"
    return tables.table([title, "samples/s", "CPU-s for 1,000 samples", "P@1"], rows) + (
        f"\n\n{_summary(figures, 'the dense one')} Its P@1 is {figures['p_at_1_lost']:.4f} lower."
    )


def wide(figures):
    rows = _sides(figures, {"hashed": "hashed, on shards"})
    title = f"{tables.number(figures['labels'])} labels"
    return tables.table([title, "samples/s", "CPU-s for 1,000 samples", ""], rows) + (
        f"\n\n{_summary(figures, figures['fastest_dense'])} Its P@1 after these steps is "
        f"{figures['p_at_1']:.3f}."
    )
