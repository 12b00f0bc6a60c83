"""Wrong values are refused, by a message that names the value and says what to do."""

import pathlib
from typing import Any

import chart
import pytest
import yaml

SECURE = {"tls": {"enabled": True, "existingSecret": "s"}}


def insecure(**values: Any) -> dict[str, Any]:
    return {"insecure": True, **values}


# Objects with what is `wrong` and the `values`, and what the `message` must say.
REFUSED = yaml.safe_load(pathlib.Path(__file__).with_name("refusals.yaml").read_text())


@pytest.mark.parametrize("case", REFUSED, ids=[case["wrong"] for case in REFUSED])
def test_every_bad_value_is_refused_with_a_message(case: Any) -> None:
    with pytest.raises(chart.RenderError, match=case["message"]):
        chart.render(overrides=case["values"])


@pytest.mark.parametrize("values", [
    insecure(), SECURE,
    insecure(shard={"replicaCount": 1}),
    insecure(shard={"terminationGracePeriodSeconds": 310}),
    insecure(shard={"replicaCount": 4, "reshardFrom": 2}),
    insecure(checkpoint={"interval": "off"}),
    insecure(tests={"enabled": False}, trainer={"enabled": True, "job": "a", "data": "/d"}),
    {"tls": {"enabled": True, "existingSecrets": {"shard": "a", "coordinator": "b"}},
     "tests": {"enabled": False}},
    insecure(**{"global": {"another": {"chart": 1}}}),
])
def test_the_neighbours_of_bad_values_are_accepted(values: Any) -> None:
    chart.render(overrides=values)


def existing(shards: int = 2, size: str | None = "20Gi", annotated: bool = True,
             replicas: int | None = None) -> dict[str, Any]:
    """The StatefulSet of an installed release, as the API server gives it."""
    claims = [{"metadata": {"name": "data"},
               "spec": {"resources": {"requests": {"storage": size}}}}] if size else None
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {
            "name": "rel-dslide-shard", "namespace": chart.NAMESPACE,
            "annotations": {"dslide/shards": str(shards)} if annotated else None,
        },
        "spec": {"replicas": shards if replicas is None else replicas,
                 "volumeClaimTemplates": claims},
    }


def upgraded(found: dict[str, Any], shard: Any) -> chart.Objects:
    return chart.upgrade([found], insecure(shard=shard))


@pytest.mark.parametrize(("found", "shard", "message"), [
    (existing(2), {"replicaCount": 3},
     "would change from 2 to 3: .* give shard.reshardFrom=2 too"),
    (existing(2), {"replicaCount": 3, "reshardFrom": 4}, "would change from 2 to 3"),
    (existing(4, annotated=False), {"replicaCount": 2}, "would change from 4 to 2"),
    # A set that is scaled to nothing keeps its number.
    (existing(2, replicas=0), {"replicaCount": 3}, "would change from 2 to 3"),
    (existing(2), {"persistence": {"size": "40Gi"}},
     "would change from 20Gi to 40Gi: .* --cascade=orphan"),
    (existing(2), {"persistence": {"enabled": False}}, "persistence.enabled cannot be changed"),
    (existing(2, size=None), {}, "persistence.enabled cannot be changed"),
])
def test_what_cannot_be_changed_in_a_release_that_runs_is_refused(
        found: dict[str, Any], shard: Any, message: str) -> None:
    with pytest.raises(chart.RenderError, match=message):
        upgraded(found, shard)


@pytest.mark.parametrize(("found", "shard"), [
    (existing(2), {}),
    (existing(2, replicas=0), {"replicaCount": 2}),
    (existing(3), {"replicaCount": 3, "reshardFrom": 2}),
])
def test_an_upgrade_that_changes_nothing_of_it_is_accepted(
        found: dict[str, Any], shard: Any) -> None:
    upgraded(found, shard)


def test_the_number_of_shards_can_be_changed_by_naming_the_old_one() -> None:
    objects = upgraded(existing(2), {"replicaCount": 3, "reshardFrom": 2})
    assert objects.shards().spec.replicas == 3
