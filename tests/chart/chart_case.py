"""What the tests of rendered objects share: loops over every file of values."""

import unittest

import chart
import yaml


def default_values():
    return yaml.safe_load((chart.CHART / "values.yaml").read_text())


def chart_values(name):
    """The values of ci/NAME-values.yaml over the defaults."""

    def merge(below, above):
        for key, value in above.items():
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            below[key] = merge(below[key], value) if both else value
        return below

    return merge(default_values(), yaml.safe_load((chart.CHART / "ci" / f"{name}-values.yaml").read_text()))


class Case(unittest.TestCase):
    """Tests that look at every file of values, or at one."""

    def each(self):
        for name, objects in chart.every_ci():
            with self.subTest(values=name):
                yield objects

    def each_server(self):
        for objects in self.each():
            for server in objects.servers():
                yield server

    def each_container(self):
        """Containers that the chart makes; those of users are theirs."""
        for name, objects in chart.every_ci():
            for owner, pod in objects.pods().items():
                spec = pod["spec"]
                for item in spec["containers"] + (spec.get("initContainers") or []):
                    theirs = item["name"] in ("shipper", "wait", "train-data", "test-data")
                    if not theirs:
                        with self.subTest(values=name, owner=owner, container=item["name"]):
                            yield item

    def each_pod(self):
        for name, objects in chart.every_ci():
            for owner, pod in objects.pods().items():
                with self.subTest(values=name, owner=owner):
                    yield pod
