"""The pages for people in a real browser: the coordinator's, `dslide serve`'s box, the report.

With --update their pictures in docs/images are taken anew.
"""

from __future__ import annotations

import pathlib
import urllib.parse

import browser
import processes
import pytest
import training
from browser import DESK, PHONE, Page
from process_case import ProcessCase
from processes import assert_ended
from serve_test import Serving

OK = 0
IMAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "images"
MOST_BYTES = 150_000

WORDS = ["apple", "cherry", "lemon", "melon", "olive", "peach", "pear", "plum"]


def write_words(directory: pathlib.Path) -> None:
    """Data of words: each is the name of a label, and of a feature that says it; two are rare."""
    labels = [label for at, label in enumerate(range(len(WORDS)))
              for _ in range((2, 6, 60, 150)[at // 2])]
    points = [f"{label} {label}:1 {(label + 1) % len(WORDS)}:0.2" for label in labels]
    training.write_words(directory, WORDS, points)
    training.write_words(directory, WORDS, [f"{label} {label}:1" for label in range(len(WORDS))],
                         "test.txt")


class PagesTest(ProcessCase):
    @pytest.fixture(autouse=True)
    def _pictures(self, update: bool) -> None:
        self.update = update

    def set_up(self) -> None:
        super().set_up()
        self.page = self.enter(browser.opened(self.directory)).new_page()
        write_words(self.directory)

    def train(self, *arguments: object) -> processes.Process:
        return self.start("dslide", "train", "-q", "--data", "../train.txt",
                          "--threads", 1, "--seed", 5, *arguments)

    def assert_good(self, page: Page, host: str) -> None:
        """Nothing went wrong, nothing came from elsewhere, and it fits a phone, light and dark."""
        for dark in (False, True):
            page.size(*PHONE, dark=dark)
            assert page.too_wide() == []
            contrast = page.value(
                "getComputedStyle(document.body).color + ' on ' +"
                " getComputedStyle(document.documentElement).colorScheme")
            assert contrast
        assert page.problems == []
        for url in page.requests:
            parts = urllib.parse.urlsplit(url)
            assert parts.scheme in ("about", "data") or parts.netloc == host, url

    def shoot(self, page: Page, name: str, height: int) -> None:
        page.size(*DESK)
        path = (IMAGES if self.update else self.directory) / f"{name}.webp"
        page.shoot(path, height)
        assert 1000 < path.stat().st_size < MOST_BYTES

    def test_the_coordinators_page_shows_the_cluster_its_jobs_and_its_shards(self) -> None:
        cluster = self.start_cluster("--data-dir", self.directory / "data", shards=2)
        admin = cluster.parts["coordinator_admin"]
        network = ["--dim", 8, "--epochs", 6, "--batch", 16, "--validation-fraction", 0.2,
                   "--cluster", cluster.address]
        assert_ended(self.train("--name", "fruits", "--job", "harvest", *network).finish(), OK)
        self.page.open(f"http://{admin}/")
        text = self.page.text()
        for words in ("Shards\t2 of 2", "fruits", "harvest", "finished", "memory", "rows",
                      "commands/s", "best P@1", "samples/s"):
            assert words in text, text
        titles = self.page.value("[...document.querySelectorAll('svg')].map(e => e.ariaLabel)")
        assert [title.split(",")[1].strip() for title in titles] == ["loss", "P@1", "samples/s"]
        # It is fresh while it is open.
        self.page.value("window.before = true")
        self.page.wait_for("window.before === undefined")
        self.assert_good(self.page, admin)
        self.shoot(self.page, "coordinator-page", 1150)

    def test_the_box_of_serve_names_labels_with_scores(self) -> None:
        model = self.directory / "model"
        assert_ended(self.train("--model-dir", model).finish(), OK)
        server = Serving(self, "--model-dir", model)
        self.page.size(*DESK)
        self.page.open(f"http://{server.parts['http']}/")
        self.page.wait_for("document.getElementById('model').innerText.includes('8 labels')")
        self.page.type("#text", "a ripe plum")
        self.page.press_enter()
        self.page.wait_for("!document.getElementById('labels').hidden")
        rows = self.page.value("[...document.querySelectorAll('#labels tbody tr')].map("
                               "row => [...row.cells].map(cell => cell.innerText.trim()))")
        assert rows[0][0] == "plum"
        assert [float(score) for _, score in rows] == sorted(
            (float(score) for _, score in rows), reverse=True)
        assert "rows scored" in self.page.text()
        assert "Not known: a, ripe" in self.page.text()
        self.assert_good(self.page, server.parts["http"])
        self.shoot(self.page, "serve-page", 620)
        assert_ended(server.process.stop(), OK)

    def test_the_report_shows_curves_accuracy_and_the_command(self) -> None:
        # As the commands see them, which the page shows.
        model, test = "../model", "../test.txt"
        report = self.directory / "report.html"
        assert_ended(self.train("--model-dir", model, "--eval", test, "--dim", 8, "--epochs", 5,
                                "--batch", 16, "--validation-fraction", 0.2).finish(), OK)
        assert_ended(self.run_dslide("report", "--model-dir", model, "--data", test,
                                     "--html", report), OK)
        self.page.open(report.as_uri())
        text = self.page.text()
        for words in ("P@1 on the test points", "nDCG@k", "PSP@k", "1 to 2", "over 100",
                      "Fingerprint", "Processor", "dslide train -q --data", "--epochs 5"):
            assert words in text, text
        assert self.page.value("document.querySelectorAll('svg.chart').length") == 3
        self.page.value("document.querySelector('details').open = true")
        assert '"max_epochs": 5' in self.page.text()
        self.assert_good(self.page, "")
        assert self.page.value("document.querySelectorAll('script, link, img').length") == 0
        self.page.value("document.querySelector('details').open = false")
        self.shoot(self.page, "report-page", 1300)
