"""Data of object stores: read once for all trainers of a machine, over cuts, kills and refusals."""

from __future__ import annotations

import json
import os
from typing import Any

from object_store import ACCESS_KEY, REGION, SECRET_KEY, Store, serving
from process_case import ProcessCase
from processes import Finished, Process, assert_ended, wait_until
from training import generate

OK, USAGE, UNREACHABLE = 0, 2, 4
TRAIN, TEST = "/bucket/my set/train.txt", "/bucket/my set/test.txt"


class RemoteDataTest(ProcessCase):
    def set_up(self) -> None:
        self.store: Store = self.enter(serving())
        self.data = generate(self, points=4000, test_points=500)
        self.store.objects = {TRAIN: self.data.train.read_bytes(),
                              TEST: self.data.test.read_bytes()}
        self.bytes = sum(len(content) for content in self.store.objects.values())
        self.store.signed = True

    def environment(self, **changed: str) -> dict[str, str]:
        return {**os.environ, "DSLIDE_DATA_CACHE": str(self.directory / "cache"),
                "DSLIDE_DATA_PATIENCE": "5m", "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY + "\n", "AWS_REGION": REGION,
                "AWS_ENDPOINT_URL": f"http://{self.store.address}", **changed}

    def begin(self, *arguments: object, **changed: str) -> Process:
        return self.start("dslide", *arguments, environment=self.environment(**changed))

    def info(self, url: str = f"s3:/{TRAIN}", **changed: str) -> Finished:
        return self.begin("data", "info", url, "-o", "json", **changed).finish()

    def assert_refused(self, finished: Finished, code: int, *words: str) -> None:
        assert_ended(finished, code)
        for word in words:
            assert word in finished.stderr, finished.stderr
        assert SECRET_KEY not in finished.stderr

    def test_three_trainers_read_the_data_once(self) -> None:
        cluster = self.start_cluster(shards=2)
        trainers = [self.begin("train", "-q", "-o", "json", "--cluster", cluster.address, "--job",
                               "shared", "--data", f"s3:/{TRAIN}", "--eval", f"s3:/{TEST}",
                               "--epochs", 2, "--threads", 1) for _ in range(3)]
        results: list[dict[str, Any]] = []
        for trainer in trainers:
            finished = trainer.finish()
            assert_ended(finished, OK)
            results.append(finished.json())
        print(f"{self.store.sent} bytes were read of data of {self.bytes}", flush=True)
        assert self.bytes <= self.store.sent <= 1.1 * self.bytes
        assert sum(result["steps"] for result in results) > 0
        # Again, while the store has the same: nothing but questions.
        assert_ended(self.info(), OK)
        assert self.store.sent <= 1.1 * self.bytes

    def test_goes_on_after_cuts_and_after_a_kill(self) -> None:
        size = len(self.store.objects[TRAIN])
        self.store.cut_after = size // 3
        self.store.holds_after = size // 4
        killed = self.begin("data", "info", f"s3:/{TRAIN}")
        part = (self.directory / "cache").glob
        wait_until(lambda: any(path.stat().st_size for path in part("*/.train.txt.part")),
                   lambda: "no part of the object was written", [killed])
        killed.kill()
        self.store.holds_after = 0
        self.store.held.set()
        finished = self.info()
        assert_ended(finished, OK)
        assert json.loads(finished.stdout)["points"] == 4000
        (whole,) = part("*/train.txt")
        assert whole.read_bytes() == self.store.objects[TRAIN]
        assert self.store.sent <= size + 4 * (64 << 10)
        assert sum(code == 206 for _, code in self.store.answers) >= 2

    def test_who_may_not_and_what_is_not_there(self) -> None:
        self.assert_refused(self.info(AWS_SECRET_ACCESS_KEY="wrong"), USAGE,
                            "s3://bucket/my set/train.txt", ACCESS_KEY, "SignatureDoesNotMatch",
                            "set AWS_ACCESS_KEY_ID")
        self.assert_refused(self.info(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""), USAGE,
                            "one without credentials", "AccessDenied")
        self.assert_refused(self.info("s3://bucket/none.txt"), USAGE, "s3://bucket/none.txt",
                            "there is no such object", "NoSuchKey")
        self.assert_refused(self.info("azure://bucket/x.txt"), USAGE, "azure://bucket/x.txt",
                            "expected s3://BUCKET/KEY")
        self.assert_refused(self.info(DSLIDE_DATA_CACHE_SIZE="1kB"), USAGE,
                            "DSLIDE_DATA_CACHE_SIZE")

    def test_stores_that_are_slow_away_or_end_early(self) -> None:
        self.store.silent = True
        soon = {"DSLIDE_DATA_PATIENCE": "1s"}
        self.assert_refused(self.info(**soon), UNREACHABLE, "s3://bucket/my set/train.txt",
                            "DSLIDE_DATA_PATIENCE")
        self.store.silent = False
        self.store.cut_after = 1
        self.assert_refused(self.info(**soon), UNREACHABLE, "the answer ended after 1 of")
        self.assert_refused(self.info(AWS_ENDPOINT_URL="http://127.0.0.1:1", **soon), UNREACHABLE,
                            "s3://bucket/my set/train.txt")

    def test_an_object_that_changes_is_read_anew(self) -> None:
        assert_ended(self.info(), OK)
        lines = self.store.objects[TRAIN].splitlines(keepends=True)
        header = lines[0].split()
        self.store.objects[TRAIN] = b" ".join([b"100", *header[1:]]) + b"\n" + b"".join(
            lines[1:101])
        finished = self.info()
        assert_ended(finished, OK)
        assert json.loads(finished.stdout)["points"] == 100

    def test_files_of_other_programs_and_names_beside(self) -> None:
        self.store.signed = False
        self.store.objects = {
            "/set/train.txt": b"2 2 2\n0 0:1\n1 1:1\n", "/set/labels.txt": b"cat\n",
            "/set/own.csv": b"text,labels\na river,water\nan oven,cooking\n",
            "/set/bad.csv": b"text,labels\na river,water\n\"\n"}
        base = f"http://{self.store.address}/set"
        finished = self.info(f"{base}/train.txt")
        assert_ended(finished, OK)
        assert f"{base}/labels.txt has 1 lines, not 2" in finished.stderr
        imported = self.begin("data", "import", "--csv", f"{base}/own.csv?key=hidden", "--output",
                              self.directory / "set", "-o", "json").finish()
        assert_ended(imported, OK)
        assert json.loads(imported.stdout)["rows"] == 2
        self.assert_refused(self.begin("train", "-q", "--data", f"{base}/bad.csv").finish(), USAGE,
                            f"{base}/bad.csv:3")
