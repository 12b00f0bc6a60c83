"""Each benchmark's result as Markdown tables, which people can also read in a terminal."""


def number(value, digits=3):
    """"1,234", "12.3", "0.0123": enough digits to compare, and a dash for what was not measured."""
    if value is None:
        return "–"
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - len(str(int(abs(value)))) + (1 if abs(value) < 1 else 0))
    return f"{value:.{places}f}"


def percent(value):
    return "–" if value is None else f"{100 * value:.0f} %"


def spread(figures):
    """The spread of repeated runs, in a table's cell."""
    if figures.get("spread") is None:
        return "–"
    return percent(figures["spread"]) if figures.get("repeats", 2) > 1 else "one run"


def number_within(value, interval):
    """A number, and in brackets where it is with 95 % certainty, if that is known."""
    if value is None or interval is None:
        return number(value)
    return f"{number(value)} ({number(interval[0])}–{number(interval[1])})"


def table(header, rows):
    """Columns as wide as they need to be."""
    cells = [header, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(header))]

    def line(row):
        return "| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def origin(result):
    """Where a result comes from: every table ends with it."""
    repeats = ""
    if result.get("repeats", 0) > 1 and "spread" in result:
        repeats = f"{result['repeats']} runs, spread {percent(result['spread'])}; "
    load = result.get("foreign_load")
    return (f"{result.get('date', 'unknown date')[:10]}, commit {result.get('commit', 'unknown')}, "
            f"{result.get('processors', '?')} x {result.get('cpu', 'unknown processor')}; {repeats}"
            f"foreign load {number(load, 2)} processors")


# What it costs to find the active rows, and to keep them findable.
HASHING = ("trainer_fingerprints", "lookup", "ranking", "centring", "rehash", "table_build")
# Of these, what runs on one thread beside the others.
BESIDE = ("trainer_fingerprints", "table_build")


def train(result):
    dense = result.get("dense") or {}
    rows = [
        ["samples/s", number(result["samples_per_second"]),
         number(result.get("dense_samples_per_second"))],
        ["times the baseline", number(result.get("speedup_vs_dense")), "1"],
        ["spread", spread(result), spread(dense)],
        ["steps measured", number(result["steps"]), number(dense.get("steps"))],
        ["P@1 on the test points", number(result.get("p_at_1")), "–"],
        ["active rows per sample", number(result["active_rows_per_sample"]), "all"],
        ["peak memory, GB", number(result["peak_rss_bytes"] / 1e9), "–"],
    ]
    parts = [table([f"{number(result['labels'])} labels", "dslide", "dense baseline"], rows)]
    for name, run in (("dslide", result), ("dense baseline", dense)):
        seconds = {key: value for key, value in (run.get("stages") or {}).items()
                   if isinstance(value, (int, float))}
        # The baseline does one thing after the other; dslide's trainer and sorter do not wait.
        whole = run.get("seconds") or sum(seconds.values())
        if not whole:
            continue
        lines = [[stage.replace("_", " "), number(value), percent(value / whole)]
                 for stage, value in seconds.items()]
        hashing = sum(seconds.get(stage, 0) for stage in HASHING)
        if hashing > 0:
            lines.append(["all hashing", number(hashing), percent(hashing / whole)])
            beside = sum(seconds.get(stage, 0) for stage in BESIDE)
            occupied = hashing - beside + beside / result.get("processors", 1)
            lines.append(["all hashing, of all processors", number(occupied), percent(occupied / whole)])
        parts.append(table([f"stage of {name}", "seconds", "share of the time"], lines))
    return "\n\n".join(parts)


RATES = {"1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}


def cluster(result):
    dense = result.get("dense") or {}
    parts = [table(["two shards, one trainer", "1 Gbit/s", "100 Mbit/s"], [
        ["dslide, samples/s", number(result["samples_per_second_1gbit"]),
         number(result["samples_per_second_100mbit"])],
        ["spread", spread(result["1gbit"]), spread(result["100mbit"])],
        ["bytes per sample and shard", number(result["bytes_per_sample_and_shard"]),
         number(result["100mbit"]["bytes_per_sample_and_shard"])],
    ]), table(["dense data parallel, 2 workers", "1 Gbit/s"], [
        ["computing a step, s", number(dense.get("compute_seconds"))],
        ["all-reduce of a step, s", number(dense.get("all_reduce_seconds"))],
        ["bytes of the gradient", number(dense.get("all_reduce_bytes"))],
        ["samples/s, one after the other", number(dense.get("samples_per_second"))],
        ["samples/s, if overlapped perfectly", number(dense.get("samples_per_second_overlapped"))],
        ["dslide is faster by", number(result["speedup_vs_dense_1gbit"])],
        ["against perfect overlap", number(result["speedup_vs_dense_1gbit_overlapped"])],
        ["fewer bytes per sample by", number(result["saved_ratio"])],
    ])]
    if result.get("data_parallel"):
        parts.append(data_parallel(result))
    if result.get("race"):
        parts.append(race(result["race"]))
    return "\n\n".join(parts)


def data_parallel(result):
    """PyTorch's DistributedDataParallel on the same data as the tables above."""
    rates = result["data_parallel"]
    runs = list(rates.values())
    ours = [result[f"samples_per_second_{rate}"] for rate in rates]
    return table([f"PyTorch {runs[0]['torch']}, DistributedDataParallel over gloo, 2 workers",
                  *(RATES[rate] for rate in rates)], [
        ["a step, s", *(number(run["step_seconds"]) for run in runs)],
        ["spread", *(spread(run) for run in runs)],
        ["samples/s", *(number(run["samples_per_second"]) for run in runs)],
        ["bytes per sample and worker", *(number(run["bytes_per_sample_and_worker"]) for run in runs)],
        ["dslide is faster by", *(number(speed / run["samples_per_second"])
                                  for speed, run in zip(ours, runs))],
    ])


def race(result):
    """Time to equal accuracy; a training that ended before it has reached it says when that was."""
    target = result["target_p_at_1"]
    order = list(dict.fromkeys(one["title"] for one in result["sides"]))
    rows = []
    for one in sorted(result["sides"], key=lambda one: order.index(one["title"])):
        reached = one["seconds_to_target"]
        seconds = f"> {number(one['seconds'])}" if reached is None else number(reached)
        rows.append([f"{one['title']}, {RATES[one['rate']]}", seconds, f"{one['best_p_at_1']:.3f}",
                     number(one["samples_per_second"]), number(one["bytes_per_sample"])])
    shape = (f"{result['data']}: {number(result['points'])} points, {number(result['labels'])} labels, "
             f"{result['hidden']} hidden units; P@1 {target:.3f} is "
             f"{percent(result['target_share'])} of the best that PyTorch reached at 1 Gbit/s. A "
             f"training ends after {number(result['steps'])} steps or "
             f"{number(result['limit_seconds'])} s, dslide's as soon as it is there.")
    return table([f"time to equal accuracy, {result['data']}", f"s to P@1 {target:.3f}", "best P@1",
                  "samples/s", "bytes per sample"], rows) + "\n\n" + shape


def growth(result):
    return "\n\n".join(growth_curve(result, name) for name in result["curves"])


def tenfold_cost(points, point):
    """How many times as long a sample takes at a point of a curve as at a tenth of its axis; None where
    that is no point of the curve."""
    for less in points:
        if 10 * less["x"] == point["x"]:
            return less["samples_per_second"] / point["samples_per_second"]
    return None


def growth_curve(result, name):
    curve = result["curves"][name]
    of_rows = name in ("rows", "compact")
    titles = [name, "samples/s", "spread", "distinct rows per step", "memory, GB"]
    if of_rows:
        titles.append("ten times cost")
    rows = []
    for point in curve["points"]:
        rows.append([number(point["x"]), number(point["samples_per_second"]), spread(point),
                     number(point["distinct_rows_per_batch"]), number(point["rss_bytes"] / 1e9)])
        if of_rows:
            cost = tenfold_cost(curve["points"], point)
            rows[-1].append("" if cost is None else f"{cost:.2f}")
    rows += [[number(point["x"]), "left out: " + point["why"], *[""] * (len(titles) - 2)]
             for point in curve["left_out"]]
    return table(titles, rows)


def micro(result):
    rows = [[kernel["name"], number(kernel["ns"]), number(kernel.get("gbps")),
             number(kernel.get("times_reference")), kernel.get("limit") or "–",
             percent(kernel.get("share_of_limit"))] for kernel in result["kernels"]]
    limits = [[limit["name"], number(limit["gbps"])] for limit in result["limits"]]
    return "\n\n".join([
        table(["limit of the machine", "GB/s"], limits),
        table(["kernel", "ns", "GB/s", "times the reference", "limit", "share of the limit"], rows),
    ])


def capacity(result):
    rows = []
    for name, case in result["cases"].items():
        if "left_out" in case:
            rows.append([name, "left out: " + case["left_out"], *[""] * 7])
            continue
        rows.append([
            f"{case['precision']}, {case['optimizer']}", number(case["rows"]),
            number(case["parameters"]), number(case["planned_shard_bytes"] / 1e9),
            number(case["shard_bytes"] / 1e9), f"{100 * case['bytes_against_plan']:.1f} %",
            number(case["first_loss"]), number(case["loss"]), number(case["samples_per_second"])])
    return table(["precision, optimizer", "rows", "parameters", "planned, GB a shard",
                  "measured, GB a shard", "of the plan", "loss of the first step",
                  "loss of the last epoch", "samples/s"], rows)


def python(result):
    training = result["training"]
    rows = [[f"{number(figures['rows'])} rows of {figures['dim']}", figures["shards"],
             f"{number(figures['gather_gbps'])} GB/s", f"{number(figures['stubs_gather_gbps'])} GB/s",
             f"{number(figures['scatter_gbps'])} GB/s"] for figures in result["rows"]]
    trainers = [[name, number(training[key]["samples_per_second"]), spread(training[key]),
                 number(training[key]["loss"])] for name, key in (("C++", "cpp"), ("Python", "python"))]
    return "\n\n".join([
        table(["client", "shards", "gather", "a loop over generated stubs", "scatter"], rows),
        table([f"trainer, {training['model']}, {number(training['steps'])} steps", "samples/s",
               "spread", "loss"], trainers)])


def durability(result):
    taken, grown, restart = result["checkpoints"], result["increments"], result["restart"]
    cuts = result["cuts"]
    large = f"changes wait with {cuts['shards']} shards and {number(cuts['bytes'] / 1e9)} GB"
    modes = [[f"`{name}`", number(mode["samples_per_second"]), spread(mode),
              f"{100 * mode['relative']:.1f} %"] for name, mode in result["modes"].items()]
    costs = [
        ["changes wait at a cut, s (median)", number(taken["stall_median_seconds"])],
        ["changes wait at a cut, s (longest)", number(taken["stall_max_seconds"])],
        [f"{large}, s (median of {cuts['taken']})", number(cuts["stall_median_seconds"])],
        [f"{large}, s (longest)", number(cuts["stall_max_seconds"])],
        ["from their first freeze to their last cut, s (longest)",
         number(cuts["frozen_max_seconds"])],
        ["a checkpoint, GB", number(taken["bytes"] / 1e9)],
        ["of which are written, GB", number(taken["written_bytes"] / 1e9)],
        ["beside the training, in s", number(taken["seconds"])],
        ["time that each costs the training, s", number(taken["training_seconds_lost"])],
        ["default interval for that, s", number(taken["default_interval_seconds"])],
        ["share of the training at that interval", f"{100 * taken['share_of_training']:.1f} %"],
        ["a full checkpoint of an idle shard, GB/s", number(grown["full"]["gb_per_second"])],
        [f"an increment after {100 * grown['changed']:.0f} % of the rows have changed, s per GiB of "
         "table", number(grown["incremental"]["seconds_per_gib"])],
        ["restart of a shard from its image, s per GiB", number(restart["image_seconds_per_gib"])],
        ["records replayed after a kill", number(restart["replayed_records"])],
        ["their replay, s", number(restart["replay_seconds"])],
    ]
    return "\n\n".join([table(["mode", "samples/s", "spread", "of mode checkpoint"], modes),
                        table([f"{result['shards']} shards, mode checkpoint; restarts in mode log",
                               "measured"], costs)])


_RPC_ROWS = [
    ("gather_1k_p50_ms", "gather of 1,000 rows, one at a time, median latency, ms"),
    ("in_flight", "requests at a time in the rates below"),
    ("gather_10k_gbps", "gather of 10,000 rows, GB/s"),
    ("gather_100k_gbps", "gather of 100,000 rows, GB/s"),
    ("scatter_10k_gbps", "scatter of 10,000 rows, GB/s"),
    ("scatter_100k_gbps", "scatter of 100,000 rows, GB/s"),
    ("raw_tcp_gbps", "raw TCP in the same run, GB/s"),
    ("cpu_s_per_gb", "processor seconds for a GB, the larger of both"),
    ("stream_cpu_s_per_gb", "those of a bare gRPC stream, one way"),
    ("echo_cpu_s_per_gb", "those of a bare gRPC echo, there and back"),
    ("rows_copied_cpu_s_per_gb", "those of copying as many random rows, without a call"),
    ("rows_added_cpu_s_per_gb", "those of adding to as many random rows, without a call"),
    ("gather_cpu_ratio", "a gather's are those of the stream times"),
    ("scatter_cpu_ratio", "a scatter's are those of the stream times"),
    ("gather_cpu_ratio_with_rows", "a gather's are those of the stream and of copied rows times"),
    ("scatter_cpu_ratio_with_rows", "a scatter's are those of the stream and of changed rows times"),
    ("cpu_ratio_to_echo", "the larger of both is that of the echo times"),
]


def rpc(result):
    columns = [result] if result.get("as_set") is None else [result, result["as_set"]]
    titles = [f"TCP with {column['congestion_control']}" for column in columns]
    rounds = [["rounds; below are their medians", *(number(c.get("rounds")) for c in columns)]]
    return table(["RPC", *titles], rounds + [
        [text, *(number_within(c.get(field), c.get("intervals", {}).get(field)) for c in columns)]
        for field, text in _RPC_ROWS])


SECTIONS = {"micro": micro, "rpc": rpc, "train": train, "cluster": cluster, "growth": growth,
            "capacity": capacity, "durability": durability, "python": python}
