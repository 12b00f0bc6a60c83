"""Helm and the renderer in renderer/ give the same objects, and refuse the same values.

Skipped where only one of the two is: then nothing can be compared. Part of ./run chart, not of the
suite: the renderer is what stands in where helm cannot be had.
"""

import sys
import unittest

import chart
import refusals_test


def by_name(text):
    objects = {}
    for item in chart.parse(text):
        key = (item["kind"], item["metadata"]["name"])
        assert key not in objects, f"two objects are {key}"
        objects[key] = item
    return objects


class RendererTest(unittest.TestCase):
    maxDiff = None

    def test_both_render_the_same_objects(self):
        for path in chart.CI_FILES:
            for apis in ((), (chart.MONITORING,)):
                with self.subTest(values=path.name, apis=apis):
                    helm, own = (
                        by_name(chart.run_renderer(str(program), [path], apis=apis))
                        for program in (chart.helm_program(), chart.own_renderer())
                    )
                    self.assertEqual(helm, own)

    def test_both_refuse_the_same_values(self):
        for what, values, message in refusals_test.REFUSED:
            for program in (chart.helm_program(), chart.own_renderer()):
                with self.subTest(what, program=str(program)):
                    with self.assertRaises(chart.RenderError) as caught:
                        chart.run_renderer(str(program), overrides=values)
                    self.assertRegex(str(caught.exception), message)


if __name__ == "__main__":
    if not chart.helm_program() or not chart.own_renderer():
        print(f"skipped: comparing the renderers needs helm and Go's packages ({chart.GO_PACKAGES})")
        sys.exit(77)
    chart.run_tests()
