"""The run with containers where it cannot run, and how it reads what containers say."""

import json
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import base_image
import cases
import compose_check
import tls_check
from engine import PATIENCE_SECONDS, CommandFailed, Unavailable, run

PROGRAM = pathlib.Path(__file__).with_name("compose_run.py")


def run_program(*arguments):
    environment = {key: value for key, value in os.environ.items() if key != "DOCKER_HOST"}
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, env=environment)


class WithoutEngineTest(unittest.TestCase):
    def test_it_is_skipped_loudly(self):
        done = run_program("-o", "json")
        self.assertEqual(done.returncode, cases.SKIPPED, done.stderr)
        self.assertIn("SKIPPED: ", done.stderr)
        figures = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(figures, {"passed": False, "skipped": ["image", "compose", "tls", "vms"]})

    def test_wrong_use(self):
        for arguments, message in ((["--image", "a:1"], "belong together"),
                                   (["--epochs", "2"], "--epochs is 2"),
                                   (["--programs", "prebuilt", "--grpc", "experimental"],
                                    "the programs are compiled in the image"),
                                   (["--only", "helm"], "invalid choice")):
            done = run_program(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


class JudgementTest(unittest.TestCase):
    RESULT = {"p_at_1": 0.5, "steps": 100, "samples_per_second": 1.0}

    def judge(self, trained=None, lost=0.0, kept=0.5):
        return compose_check.judge(self.RESULT, self.RESULT | (trained or {}), lost, kept, {})

    def test_equals_pass(self):
        found = self.judge()
        self.assertEqual((found["p_at_1"], found["embedded_p_at_1"], found["lost"]), (0.5, 0.5, 0))

    def test_each_difference_fails(self):
        for difference in ({"lost": 1.0}, {"kept": 0.49}, {"trained": {"steps": 99}},
                           {"trained": {"p_at_1": 0.47}}):
            with self.subTest(difference), self.assertRaises(CommandFailed):
                self.judge(**difference)


class VisitTest(unittest.TestCase):
    """What is made of what strangers.py says."""

    FOUND = {"tried": 4, "refused": 4, "served": [], "unknown": []}

    def knock(self, **found):
        authority = mock.Mock(visit=lambda: ["--work", "here"])
        self.python = mock.Mock()
        self.python.return_value.stdout = f"noise\n{json.dumps(self.FOUND | found)}\n"
        return tls_check.knock(self.python, authority, ["a:1", "b:2"], "--revoked", "thief")

    def test_refusals_are_counted(self):
        self.assertEqual(self.knock(), 4)
        self.assertEqual(self.python.call_args.args[1:],
                         ("--work", "here", "--revoked", "thief", "a:1", "b:2"))

    def test_who_is_served_or_unknown_wrongly_fails(self):
        for wrong in ({"served": ["thief at a:1"]}, {"unknown": ["trainer at b:2"]}):
            with self.subTest(wrong), self.assertRaisesRegex(CommandFailed, "(thief|trainer) at"):
                self.knock(**wrong)


class BaseImageTest(unittest.TestCase):
    def provide(self, known, pulled):
        engine = mock.Mock(has_image=lambda name: known)
        engine.docker.return_value.returncode = 0 if pulled else 1
        return engine, base_image.provide(engine, "trixie", "/nonexistent")

    def test_it_is_pulled_when_it_is_missing(self):
        engine, name = self.provide(known=True, pulled=False)
        self.assertEqual(name, "debian:trixie-slim")
        engine.docker.assert_not_called()
        engine, name = self.provide(known=False, pulled=True)
        self.assertEqual(engine.docker.call_args.args, ("pull", "-q", name))

    def test_without_a_registry_and_debootstrap_it_says_so(self):
        with mock.patch("shutil.which", return_value=None), \
                self.assertRaisesRegex(Unavailable, "debian:trixie-slim cannot be pulled"):
            self.provide(known=False, pulled=False)


class OutputTest(unittest.TestCase):
    def test_metrics_are_summed_over_labels_and_containers(self):
        page = mock.MagicMock()
        page.__enter__.return_value.read.return_value = (
            b"# HELP lost_total x\nlost_total 1\nlost_total{a=\"b\"} 2\nlost_total_more 50\n")
        engine = mock.Mock(address=lambda container: "127.0.0.1")
        with mock.patch("urllib.request.OpenerDirector.open", return_value=page):
            self.assertEqual(compose_check.metric_sum(engine, ["one", "two"], 1, "lost_total"), 6)
            with self.assertRaisesRegex(CommandFailed, "no metric absent"):
                compose_check.metric_sum(engine, ["one"], 1, "absent")

    def start(self, script):
        running = compose_check.Running(["/bin/sh", "-c", script], {})
        self.addCleanup(running.kill)
        return running

    def test_a_running_command(self):
        shell = "echo 'epoch 1: P@1' >&2; echo note; echo '{\"a\": 1}'"
        running = self.start(shell)
        running.wait_for("epoch 1")
        self.assertEqual(running.result(), {"a": 1})
        running = self.start("echo why >&2; exit 3")
        with self.assertRaisesRegex(CommandFailed, r"(?s)ended with 3.*why"):
            running.result()
        with self.assertRaisesRegex(CommandFailed, r"(?s)without.*why"):
            running.wait_for("epoch 1")

    def test_a_command_that_fails_or_hangs_says_so(self):
        with self.assertRaisesRegex(CommandFailed, "status 1"):
            run(["/bin/false"])
        with self.assertRaisesRegex(CommandFailed, "no end within"):
            run(["/bin/sleep", "5"], within=0.1)


if __name__ == "__main__":
    cases.main()
