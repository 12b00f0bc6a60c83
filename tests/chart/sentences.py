"""Tables of sentences about rendered objects: a test runs over one, and each row is a case."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import chart
import pytest
from chart import Object, Objects

Find = Callable[[Any], Any]
# Containers of users: the chart only hands them on.
_THEIRS = ("shipper", "wait", "train-data", "test-data")


def sentences(*rows: tuple[str, Find, Any]) -> pytest.MarkDecorator:
    """Cases (find, expected) of (sentence, find, expected)."""
    return pytest.mark.parametrize(
        ("find", "expected"), [pytest.param(*row, id=says) for says, *row in rows])


def of_values(*rows: tuple[str, str, Find, Any]) -> pytest.MarkDecorator:
    """Cases (values, find, expected) of (sentence, name of a file of values, find, expected)."""
    return pytest.mark.parametrize(
        ("values", "find", "expected"), [pytest.param(*row, id=says) for says, *row in rows])


def holds(things: Iterable[tuple[str, Any]], find: Find, expected: Any) -> None:
    """What is found in each of the (place, thing) is as expected."""
    for place, thing in things:
        assert find(thing) == expected, place


def each_server() -> Iterator[tuple[str, Object]]:
    for name, objects in chart.every_ci():
        for server in objects.servers():
            yield f"{name}: {server.metadata.name}", server


def each_pod() -> Iterator[tuple[str, Object]]:
    for name, objects in chart.every_ci():
        for owner, pod in objects.pods().items():
            yield f"{name}: {owner}", pod


def each_container() -> Iterator[tuple[str, Object]]:
    """Containers that the chart makes."""
    for place, pod in each_pod():
        for container in chart.containers_of(pod):
            if container.name not in _THEIRS:
                yield f"{place}: {container.name}", container


def mounts(container: Object) -> dict[str, str]:
    """{name: path} of its volumes."""
    return {mount.name: mount.mountPath for mount in container.volumeMounts or []}


def environment(container: Object) -> dict[str, Object]:
    """{name: value or valueFrom}."""
    return {item.name: item.value or item.valueFrom for item in container.env or []}


def components(objects: Iterable[Object]) -> list[str]:
    """The parts of a release that they select."""
    selectors = [item.spec.selector or item.spec.podSelector.matchLabels for item in objects]
    return sorted(selector["app.kubernetes.io/component"] for selector in selectors)


def shard_of(objects: Objects) -> Object:
    """The spec of a shard's pod."""
    spec: Object = objects.shards().spec.template.spec
    return spec


def shard_container(objects: Objects) -> Object:
    return chart.main_container(objects.shards().spec.template)
