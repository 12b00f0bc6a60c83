"""Writes the Grafana dashboards of this folder from the panels named here.

usage: make_dashboards.py [--check]      --check: changes nothing, ends with 1 when a file is stale

A dashboard is a list of rows, a row a title and its panels, a panel a title, a unit, what it says,
and its queries with their legends. Queries use $__rate_interval, which Grafana puts in. Every metric
is chosen by the variables $namespace, $dslide_cluster, $pod and $instance, one of a job by
$job_name too: labels of targets that a Prometheus without Kubernetes does not have match all.
"""

import argparse
import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
COLUMNS = 24
HEIGHT = 8


# A metric and its selector, which may be empty.
_METRIC = re.compile(r"\b((?:dslide|grpc_server|process)_[a-z0-9_]+)(?:\{([^}]*)\})?")
_VARIABLES = ("namespace", "dslide_cluster", "pod", "instance")


def panel(title, unit, description, *queries):
    """queries: (PromQL, legend) pairs."""
    return {"title": title, "unit": unit, "description": description, "queries": queries,
            "type": "timeseries"}


def stat(title, unit, description, *queries):
    """The newest values as large numbers."""
    return {**panel(title, unit, description, *queries), "type": "stat"}


def chosen(expression):
    """Every metric of the expression with the dashboard's variables in its selector."""
    def select(found):
        name, selector = found.groups()
        variables = _VARIABLES + (("job_name",) if "_job_" in name else ())
        labels = [selector] if selector else []
        labels += [f'{each}=~"${each}"' for each in variables]
        return f"{name}{{{','.join(labels)}}}"
    return _METRIC.sub(select, expression)


def rate(name, by="", labels=""):
    """The growth of a counter each second, summed up by labels."""
    return f"sum by ({by or 'instance'}) (rate({name}{{{labels}}}[$__rate_interval]))"


def quantile(q, name, by="", labels=""):
    grouped = ", ".join(filter(None, ["le", by]))
    return (f"histogram_quantile({q}, sum by ({grouped}) "
            f"(rate({name}_bucket{{{labels}}}[$__rate_interval])))")


def mean(name, by=""):
    return f"{rate(name + '_sum', by)} / {rate(name + '_count', by)}"


def share(part, whole):
    """Of two counters, over all chosen processes."""
    return f"sum(rate({part}[$__rate_interval])) / sum(rate({whole}[$__rate_interval]))"


COMMUNICATION = [
    ("Bytes", [
        panel("Bytes moved by method", "Bps", "What the shards received and sent, without framing.",
              (rate("dslide_shard_bytes_total", "method, direction"), "{{method}} {{direction}}")),
        panel("Bytes moved and what dense training would move", "Bps",
              "Both directions, over all shards. The dense figure is that of an all-reduce of every "
              "parameter for each update.",
              ('sum(rate(dslide_shard_bytes_total{method="Step"}[$__rate_interval]))', "moved"),
              ("sum(rate(dslide_shard_dense_equivalent_bytes_total[$__rate_interval]))",
               "dense all-reduce")),
        panel("Share of the dense bytes that was saved", "percentunit",
              "1 - moved / dense. Below 0 the dense way would be cheaper.",
              ('1 - sum(rate(dslide_shard_bytes_total{method="Step"}[$__rate_interval])) / '
               "sum(rate(dslide_shard_dense_equivalent_bytes_total[$__rate_interval]))", "saved")),
        panel("Wire bytes per sample", "bytes", "Of each trainer, both directions of its steps.",
              ('sum by (instance) (rate(dslide_trainer_sent_bytes_total{method="Step"}'
               "[$__rate_interval]) + "
               'rate(dslide_trainer_received_bytes_total{method="Step"}[$__rate_interval])) / '
               "sum by (instance) (rate(dslide_trainer_samples_total[$__rate_interval]))",
               "{{instance}}")),
    ]),
    ("Messages", [
        panel("Messages by method", "ops", "Both directions, seen from the shards.",
              (rate("dslide_shard_messages_total", "method, direction"),
               "{{method}} {{direction}}")),
        panel("Bytes by table and operation", "Bps", "Of requests that were served.",
              (rate("dslide_shard_table_traffic_bytes_total", "table, operation, direction"),
               "{{table}} {{operation}} {{direction}}")),
        panel("Mean message of a step", "bytes", "Bytes per message, by direction.",
              (rate("dslide_shard_bytes_total", "direction", 'method="Step"') + " / " +
               rate("dslide_shard_messages_total", "direction", 'method="Step"'),
               "{{direction}}")),
    ]),
    ("Round trips", [
        panel("Round trip to each shard, median and 99 %", "s",
              "From sending a step operation to its answer; the shard's queue and work included.",
              (quantile(0.5, "dslide_trainer_round_trip_seconds", "shard"), "shard {{shard}} p50"),
              (quantile(0.99, "dslide_trainer_round_trip_seconds", "shard"), "shard {{shard}} p99")),
        panel("Round trip from shards to the coordinator", "s", "Heartbeats: hardly any work in it.",
              (quantile(0.5, "dslide_shard_heartbeat_seconds", "instance"), "{{instance}} p50")),
        panel("Calls and their codes", "ops", "Finished RPCs of all services.",
              ("sum by (grpc_method, grpc_code) (rate(grpc_server_handled_total[$__rate_interval])) "
               "> 0 or sum by (grpc_method, grpc_code) "
               '(rate(grpc_server_handled_total{grpc_code="OK"}[$__rate_interval]))',
               "{{grpc_method}} {{grpc_code}}")),
    ]),
]

TRAINING = [
    ("Overview", [
        stat("Jobs that run", "none", "And that have ended.",
             ("sum by (state) (dslide_coordinator_jobs)", "{{state}}")),
        stat("Best precision at 1", "percentunit", "Of each job, on held-out points.",
             ("dslide_coordinator_job_best_precision_at_1", "{{job_name}}")),
        stat("Epochs done", "percentunit", "Of those that a job has at most.",
             ("dslide_coordinator_job_epoch / dslide_coordinator_job_max_epochs", "{{job_name}}")),
        stat("Trainers", "none", "That were heard of lately.",
             ("dslide_coordinator_job_trainers", "{{job_name}}")),
    ]),
    ("Progress", [
        panel("Samples each second", "ops", "Of each trainer.",
              (rate("dslide_trainer_samples_total"), "{{instance}}")),
        panel("Loss", "none", "Mean loss of the last step.",
              ("dslide_trainer_loss", "{{instance}}")),
        panel("Held-out precision at 1", "percentunit", "At the last evaluation.",
              ("dslide_trainer_validation_precision_at_1_ratio", "{{instance}}")),
        panel("Epoch", "none", "Of the last step, from 0.",
              ("dslide_trainer_epoch", "{{instance}}")),
    ]),
    ("Sparsity", [
        panel("Active rows per sample", "none", "Rows of the head that one sample touches, summed "
              "over the shards.",
              (rate("dslide_trainer_active_rows_total") + " / " +
               rate("dslide_trainer_samples_total"), "{{instance}}")),
        panel("Distinct rows per step", "none", "Rows of the head that one step loads.",
              (rate("dslide_trainer_distinct_rows_total") + " / " +
               rate("dslide_trainer_steps_total"), "{{instance}}")),
        panel("Hash recall", "percentunit",
              "Share of the exact best rows that the hash tables had found, of sampled queries.",
              (share('dslide_shard_recall_found_total{top="1"}',
                     'dslide_shard_recall_wanted_total{top="1"}'), "top 1"),
              (share('dslide_shard_recall_found_total{top="10"}',
                     'dslide_shard_recall_wanted_total{top="10"}'), "top 10")),
        panel("Staleness of gradients, 90 %", "none",
              "Updates of the head between a step's forward and its backward pass.",
              (quantile(0.9, "dslide_shard_staleness_steps", "instance"), "{{instance}}")),
    ]),
    ("Where the time goes", [
        panel("Stages on the shards", "s",
              "Seconds spent each second; the sum is the busy share of the shard.",
              (rate("dslide_shard_stage_seconds_sum", "stage"), "{{stage}}")),
        panel("Stages of the trainers", "s", "Seconds spent each second. hash is a part of compute.",
              (rate("dslide_trainer_stage_seconds_sum", "stage"), "{{stage}}")),
        panel("Decode, queue, encode", "s", "Mean time of a request before and after its command.",
              (mean("dslide_shard_decode_seconds"), "decode {{instance}}"),
              (mean("dslide_shard_queue_seconds"), "queue {{instance}}"),
              (mean("dslide_shard_encode_seconds"), "encode {{instance}}")),
    ]),
    ("Jobs", [
        panel("Pace of each job", "none", "Samples a second, all trainers together.",
              ("dslide_coordinator_job_samples_per_second", "{{job_name}}")),
        panel("P@1 of each job", "none", "On held-out points, after each epoch.",
              ("dslide_coordinator_job_precision_at_1", "{{job_name}}")),
        panel("Loss of each job", "none", "Mean of the epoch so far.",
              ("dslide_coordinator_job_loss", "{{job_name}}")),
        panel("Time left", "s", "Until the last epoch, without evaluations.",
              ("dslide_coordinator_job_time_left_seconds", "{{job_name}}")),
    ]),
    ("Work", [
        panel("Jobs", "none", "Training jobs that the coordinator knows.",
              ("sum by (state) (dslide_coordinator_jobs)", "{{state}}")),
        panel("Chunks of data trained", "ops", "Over all trainers.",
              ("sum(rate(dslide_coordinator_chunks_done_total[$__rate_interval]))", "chunks")),
        panel("Leases taken back from silent trainers", "ops", "Trainers that died or hang.",
              ("sum(rate(dslide_coordinator_leases_expired_total[$__rate_interval]))", "expired")),
    ]),
]

SHARD_HEALTH = [
    ("Overview", [
        stat("Processes that are ready", "none", "And those that are not.",
             ("sum(dslide_server_ready)", "ready"),
             ("count(dslide_server_ready) - sum(dslide_server_ready)", "not ready")),
        stat("Shards that are missing", "none", "Of those that the cluster is made of.",
             ("sum(dslide_coordinator_expected_shards) - "
              'sum(dslide_coordinator_registered_shards{health="alive"})', "missing")),
        stat("Memory budget in use", "percentunit", "By the tables of the fullest shard.",
             ("max(dslide_shard_table_bytes / dslide_shard_memory_budget_bytes)", "fullest")),
        stat("Age of the newest cluster checkpoint", "s", "Of the coordinator's process, or its "
             "start.", ("dslide_coordinator_checkpoint_age_seconds", "{{instance}}")),
    ]),
    ("Availability", [
        panel("Ready", "none", "1: takes requests.", ("dslide_server_ready", "{{instance}}")),
        panel("Registered shards", "none", "By health, and how many there should be.",
              ("dslide_coordinator_registered_shards", "{{health}}"),
              ("dslide_coordinator_expected_shards", "expected")),
        panel("Builds", "none", "Processes by version.",
              ("count by (version, revision) (dslide_build_info)", "{{version}} {{revision}}")),
    ]),
    ("Load", [
        panel("Commands waiting", "none", "In front of each shard's one applying thread.",
              ("dslide_shard_queue_commands", "{{instance}}")),
        panel("Time in the queue, 99 %", "s", "From a command's arrival until it is applied.",
              (quantile(0.99, "dslide_shard_queue_seconds", "instance"), "{{instance}}")),
        panel("Time to apply a command", "s", "Mean, by command, over all shards.",
              (mean("dslide_shard_apply_seconds", "command") +
               ' and on (command) (sum by (command) (dslide_shard_apply_seconds_count) > 0)',
               "{{command}}")),
        panel("Processors", "percentunit", "1: one processor busy.",
              (rate("process_cpu_seconds_total"), "{{instance}}")),
    ]),
    ("Memory", [
        panel("Memory by kind", "bytes", "Over the chosen shards.",
              ('sum by (kind) (dslide_shard_memory_bytes)', "{{kind}}")),
        panel("Tables against their budget", "percentunit", "1: no further model fits.",
              ("dslide_shard_table_bytes / dslide_shard_memory_budget_bytes", "{{instance}}")),
        panel("Resident memory", "bytes", "Of the processes.",
              ("process_resident_memory_bytes", "{{instance}}")),
        panel("Buffers of bulk calls", "bytes", "Gather answers: on their way, and kept.",
              ("dslide_shard_bulk_buffer_bytes", "{{instance}} {{state}}")),
    ]),
    ("Balance", [
        panel("Slots by shard", "none", "Of a table of 1,024 slots, as the coordinator deals them.",
              ("dslide_coordinator_slots", "shard {{shard}}")),
        panel("Head rows loaded each second", "ops", "Even shards load equally many.",
              (rate("dslide_shard_distinct_rows_total", "instance", 'table="head"'),
               "{{instance}}")),
        panel("Skew of the hash tables", "none", "1: rows fall into buckets evenly.",
              ("dslide_shard_bucket_skew_ratio", "{{instance}} {{table}}")),
    ]),
    ("Refusals", [
        panel("Refused requests by reason", "ops",
              "The words are explained in docs/operate/errors.md.",
              (rate("dslide_shard_refused_requests_total", "reason"), "{{reason}}")),
        panel("Row updates not stored", "ops", "The result was not finite or beyond the bound.",
              (rate("dslide_shard_rejected_rows_total"), "{{instance}}")),
        panel("Repeated mutations", "ops", "Answered from memory; each was sent more than once.",
              (rate("dslide_shard_repeated_mutations_total"), "{{instance}}")),
    ]),
]

DURABILITY = [
    ("Command log", [
        panel("Time to make records durable", "s", "One sync of the disk: median and 99 %.",
              (quantile(0.5, "dslide_shard_log_sync_seconds", "instance"), "{{instance}} p50"),
              (quantile(0.99, "dslide_shard_log_sync_seconds", "instance"), "{{instance}} p99")),
        panel("Time to append a record", "s", "99 %; handed to the system, not synced.",
              (quantile(0.99, "dslide_shard_log_append_seconds", "instance"), "{{instance}}")),
        panel("Appended", "Bps", "Bytes of the records.",
              (rate("dslide_shard_log_appended_bytes_total"), "{{instance}}")),
        panel("Records that are not durable yet", "none", "What a loss of power would cost now.",
              ("dslide_shard_log_newest_lsn - dslide_shard_log_durable_lsn", "{{instance}}")),
    ]),
    ("On the disk", [
        panel("Size of the log", "bytes", "Its files, which go after the images.",
              ("dslide_shard_log_bytes", "{{instance}}")),
        panel("Size of the images", "bytes", "Of the whole state; two are kept.",
              ("dslide_shard_image_bytes", "{{instance}}")),
        panel("Age of the newest image", "s", "Since it was written.",
              ("dslide_shard_image_age_seconds", "{{instance}}")),
        panel("Records since the newest image", "none", "What a start would replay.",
              ("dslide_shard_log_newest_lsn - dslide_shard_image_lsn", "{{instance}}")),
    ]),
    ("Images and checkpoints", [
        panel("Time to write an image, mean", "s", "Beside commands, unless the shard stops.",
              ("dslide_shard_image_seconds_sum / (dslide_shard_image_seconds_count > 0)",
               "{{instance}}")),
        panel("Time of the last checkpoints, mean", "s", "Written and loaded.",
              ("sum by (instance, operation) (dslide_shard_checkpoint_seconds_sum) / "
               "sum by (instance, operation) (dslide_shard_checkpoint_seconds_count)",
               "{{instance}} {{operation}}")),
        panel("Age of the last checkpoint", "s", "Since it was written or loaded.",
              ("time() - dslide_shard_checkpoint_timestamp_seconds", "{{instance}} {{operation}}")),
        panel("Size of the last checkpoint", "bytes", "Of one shard.",
              ("dslide_shard_checkpoint_bytes", "{{instance}} {{operation}}")),
    ]),
    ("Losses", [
        panel("Acknowledged updates that are gone", "none",
              "Clients had answers to them; 0 in the modes log and log-periodic unless the power "
              "failed.",
              ("dslide_shard_acked_loss_total", "{{instance}}")),
        panel("Failed logs", "none", "Times that a shard ended for it since the coordinator began.",
              ("dslide_coordinator_shard_log_failures_total", "shard {{shard}}")),
        panel("Restores", "s", "How long the last start took to restore its state.",
              ("dslide_shard_recovery_seconds", "{{instance}}")),
        panel("Models made afresh", "none", "On a shard that came back without them.",
              ("dslide_coordinator_models_recreated_total", "recreated")),
    ]),
]

DASHBOARDS = {
    "communication": ("dslide: communication", "Bytes, messages and round trips.", COMMUNICATION),
    "training": ("dslide: training", "Progress, sparsity and time by stage.", TRAINING),
    "shard-health": ("dslide: shard health", "Load, memory, balance, refusals.", SHARD_HEALTH),
    "durability": ("dslide: durability", "Log, images, checkpoints, losses.", DURABILITY),
}


def render_panel(spec, number, x, y, width):
    targets = [{"refId": chr(ord("A") + i), "expr": chosen(query), "legendFormat": legend,
                "datasource": {"type": "prometheus", "uid": "${datasource}"}}
               for i, (query, legend) in enumerate(spec["queries"])]
    rendered = {
        "id": number, "type": spec["type"], "title": spec["title"],
        "description": spec["description"],
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": width, "h": height_of(spec)},
        "fieldConfig": {"defaults": {"unit": spec["unit"]}, "overrides": []},
        "targets": targets,
    }
    if spec["type"] == "stat":
        rendered["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none",
                               "textMode": "value_and_name"}
        return rendered
    rendered["fieldConfig"]["defaults"]["custom"] = {"lineWidth": 2, "fillOpacity": 5,
                                                     "showPoints": "never"}
    rendered["options"] = {"legend": {"displayMode": "list", "placement": "bottom"},
                           "tooltip": {"mode": "multi", "sort": "desc"}}
    return rendered


def height_of(spec):
    return HEIGHT // 2 if spec["type"] == "stat" else HEIGHT


def render_panels(rows):
    panels, y, number = [], 0, 0
    for title, specs in rows:
        number += 1
        panels.append({"id": number, "type": "row", "title": title, "collapsed": False,
                       "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}, "panels": []})
        y += 1
        width = COLUMNS // len(specs)
        for i, spec in enumerate(specs):
            number += 1
            panels.append(render_panel(spec, number, i * width, y, width))
        y += max(map(height_of, specs))
    return panels


def variable(name, label, values):
    return {"name": name, "label": label, "type": "query", "multi": True, "includeAll": True,
            "allValue": ".*", "refresh": 2, "current": {"text": "All", "value": "$__all"},
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": {"query": f"label_values({values}, {name})", "refId": name}}


def variables():
    """Each offers what the ones before have left."""
    selector, queries = [], []
    for name, label in zip(_VARIABLES, ("Namespace", "Cluster", "Pod", "Process")):
        metric = f"dslide_build_info{{{','.join(selector)}}}" if selector else "dslide_build_info"
        queries.append(variable(name, label, metric))
        selector.append(f'{name}=~"${name}"')
    jobs = f"dslide_coordinator_job_epoch{{{','.join(selector[:2])}}}"
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
         "current": {}, "hide": 0},
        *queries, variable("job_name", "Job", jobs),
    ]


def render(name):
    title, description, rows = DASHBOARDS[name]
    return {
        "uid": f"dslide-{name}", "title": title, "description": description, "tags": ["dslide"],
        "schemaVersion": 38, "version": 1, "editable": True, "refresh": "30s", "timezone": "",
        "time": {"from": "now-1h", "to": "now"}, "graphTooltip": 1,
        "templating": {"list": variables()}, "annotations": {"list": []},
        "links": [{"type": "dashboards", "title": "dslide", "tags": ["dslide"], "asDropdown": True,
                   "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "",
                   "tooltip": "", "url": ""}],
        "panels": render_panels(rows),
    }


def text_of(name):
    return json.dumps(render(name), indent=1) + "\n"


def stale():
    """Names of the dashboards whose files are not what this program writes."""
    return [name for name in DASHBOARDS
            if not (FOLDER / f"{name}.json").is_file()
            or (FOLDER / f"{name}.json").read_text(encoding="utf-8") != text_of(name)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        names = stale()
        for name in names:
            print(f"deploy/grafana/{name}.json is stale: python3 deploy/grafana/make_dashboards.py")
        sys.exit(1 if names else 0)
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
