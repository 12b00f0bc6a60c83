"""The life of jobs and models on a cluster: listed, cancelled, forgotten, deleted."""

from __future__ import annotations

import json

import failures_test
import processes
from failures_test import FAILURE, INTERRUPTED, OK, USAGE
from processes import Finished, Process, assert_ended


class JobLifeTest(failures_test.FailureTest):
    def set_up(self) -> None:
        super().set_up()
        self.cluster = self.start_cluster(shards=2)

    def ask(self, *arguments: object) -> Finished:
        return self.run_dslide(*arguments, "--cluster", self.cluster.address, "-o", "json")

    def train(self, *arguments: object) -> Process:
        return self.start("dslide", "train", "--data", self.data, "--cluster",
                          self.cluster.address, "--admin", "127.0.0.1:0", "-o", "json",
                          *arguments)

    def test_a_job_is_cancelled_forgotten_and_begun_anew(self) -> None:
        trainer = self.train("--job", "night", "--epochs", 100000, "--validation-fraction", 0)
        self.wait_for_steps(trainer, 6)
        [job] = self.ask("job", "list").json()["jobs"]
        assert (job["job"], job["trainers"], job["finished"]) == ("night", 1, False), job
        assert self.ask("job", "describe", "night").json()["max_epochs"] == 100000
        assert_ended(self.ask("job", "cancel", "night"), USAGE, "add --yes, or --dry-run")
        assert_ended(self.ask("job", "delete", "night", "--yes"), FAILURE,
                     "not finished: cancel it first")
        assert not self.ask("job", "cancel", "night", "--dry-run").json()["cancelled"]

        cancelled = self.ask("job", "cancel", "night", "--yes").json()
        assert cancelled["cancelled"] and cancelled["finished"], cancelled
        ended = trainer.finish()
        assert_ended(ended, OK)
        assert json.loads(ended.stdout.splitlines()[-1])["cancelled"], ended
        # Until it is forgotten it is answered with its end, whoever joins.
        joined = self.train("--job", "night", "--epochs", 100000, "--validation-fraction", 0)
        assert json.loads(joined.finish().stdout.splitlines()[-1])["steps"] == 0
        assert self.ask("job", "delete", "night", "--yes").json()["deleted"]
        assert_ended(self.ask("job", "describe", "night"), USAGE, "dslide job list")
        anew = self.train("--job", "night", "--epochs", 100000, "--validation-fraction", 0)
        self.wait_for_steps(anew, 6)
        assert_ended(anew.stop(), INTERRUPTED)

    def test_a_model_goes_with_its_jobs_but_not_while_it_is_trained(self) -> None:
        trainer = self.train("--job", "day", "--epochs", 100000, "--validation-fraction", 0)
        self.wait_for_steps(trainer, 6)
        [model] = self.ask("model", "list").json()["models"]
        name = model["name"]
        assert self.ask("model", "describe", name).json() == model
        assert_ended(self.ask("model", "delete", name, "--yes"), FAILURE, "dslide job cancel day")
        assert_ended(self.ask("job", "cancel", "day", "--yes"), OK)
        assert_ended(trainer.finish(), OK)
        assert_ended(self.ask("model", "delete", name), USAGE, "add --yes, or --dry-run")
        planned = self.ask("model", "delete", name, "--dry-run").json()
        assert planned == {"model": name, "jobs": ["day"], "deleted": False}
        assert self.ask("model", "delete", name, "--yes").json()["deleted"]
        assert self.ask("model", "list").json()["models"] == []
        assert self.ask("job", "list").json()["jobs"] == []
        assert_ended(self.ask("model", "delete", name, "--yes"), USAGE, "dslide model list")

    def test_two_models_and_three_jobs_are_told_apart(self) -> None:
        def begin(model: str, job: str, epochs: int) -> Process:
            return self.train("--name", model, "--job", job, "--epochs", epochs, "--dim", 8,
                              "--validation-fraction", 0)

        going, stopped = begin("wide", "going", 100000), begin("narrow", "stopped", 100000)
        done = begin("narrow", "done", 2)
        self.wait_for_steps(going, 6)
        self.wait_for_steps(stopped, 6)
        assert_ended(done.finish(), OK)
        grown = self.ask("model", "grow", "wide", "--table", "labels", "--rows", 500).json()
        assert (grown["rows_before"], grown["rows"], grown["grown"]) == (400, 500, True)
        self.wait_for_steps(going, self.steps(going) + 6)
        assert {model["name"]: model["tables"][1]["rows"]
                for model in self.ask("model", "list").json()["models"]} == {
                    "narrow": 400, "wide": 500}
        assert_ended(self.ask("job", "cancel", "stopped", "--yes"), OK)
        assert_ended(stopped.finish(), OK)

        expected = {"going": ("wide", False, False, 1), "stopped": ("narrow", True, True, 0),
                    "done": ("narrow", True, False, 0)}
        status = self.ask("status").json()
        assert status["models"] == ["narrow", "wide"]
        for jobs in (self.ask("job", "list").json()["jobs"], status["jobs"]):
            assert {job["job"]: (job["model"], job["finished"], job["cancelled"], job["trainers"])
                    for job in jobs} == expected
        curve = self.ask("job", "describe", "done").json()["epochs"]
        assert [point["epoch"] for point in curve] == [0, 1]
        assert all(point["samples_per_second"] > 0 for point in curve)
        page = processes.look_at(self.cluster.parts["coordinator_admin"], "/metrics")[1]
        for job, (model, finished, _, trainers) in expected.items():
            labels = f'{{job_name="{job}",model="{model}"}}'
            assert f"dslide_coordinator_job_finished{labels} {int(finished)}\n" in page
            assert f"dslide_coordinator_job_trainers{labels} {trainers}\n" in page

        assert_ended(self.ask("model", "delete", "wide", "--dry-run"), FAILURE,
                     "dslide job cancel going first, or add --force")
        assert self.ask("model", "delete", "narrow", "--yes").json()["deleted"]
        forced = self.ask("model", "delete", "wide", "--yes", "--force").json()
        assert forced == {"model": "wide", "jobs": ["going"], "deleted": True}
        assert going.finish().code != OK

    def test_a_live_model_is_trained_on_with_other_settings(self) -> None:
        settings = ["--dim", 16, "--validation-fraction", 0]
        first = self.train("--job", "first", "--epochs", 3, *settings).finish()
        assert_ended(first, OK)
        # A job of other trainers has to agree, and is told what differs.
        for other, text in ((["--epochs", 4], "max_epochs 3"),
                            (["--epochs", 3, "--learning-rate", 0.5], r"rates\[0\].learning_rate"),
                            (["--epochs", 3, "--input-dropout", 0.5], "training.input_dropout")):
            assert_ended(self.train("--job", "first", *settings, *other).finish(), USAGE, text)
        changed = ["--dim", 16, "--learning-rate", 0.005, "--batch-size", 32, "--order-seed", 7,
                   "--hidden-dropout", 0.1, "--validation-fraction", 0]
        second = json.loads(self.train("--job", "second", "--epochs", 14, *changed)
                            .finish().stdout.splitlines()[-1])
        assert second["epochs"] == 14, second
        assert second["loss"] < json.loads(first.stdout.splitlines()[-1])["loss"], second
        # What rows depend on is the model's.
        assert_ended(self.train("--job", "third", "--dim", 8).finish(), FAILURE,
                     r"tables\[0\].dim is 16, not 8", "dslide model delete")
