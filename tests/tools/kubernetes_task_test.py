"""What ends a cluster, whatever happens to its maker, and what an image is; without a cluster."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile

import cluster
import ending
import image_archive
import increments
import node_faults
import pytest
import trainer_watch
from faults import Fault
from processes import PATIENCE_SECONDS
from release import Release
from steps import Steps, check_job

TOOLS = pathlib.Path(ending.__file__).parent
# A maker that says when it is guarded, and then does as the word after says.
MAKER = """
import os, pathlib, signal, sys
from guard import Guard
guard = Guard(lambda: pathlib.Path(sys.argv[1]).write_text("ended"))
if sys.argv[2] == "dismiss":
    guard.dismiss()
elif sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("fate", "is_ended"), [
    ("killed", True), ("left", True), ("dismiss", False)])
def test_a_cluster_ends_with_its_maker(tmp_path: pathlib.Path, fate: str, is_ended: bool) -> None:
    mark = tmp_path / "mark"
    # The guard holds the pipe, too: its end is that of both.
    subprocess.run([sys.executable, "-c", MAKER, mark, fate], cwd=TOOLS, timeout=PATIENCE_SECONDS,
                   stdout=subprocess.PIPE, check=False)
    assert mark.exists() == is_ended


def test_a_guard_is_not_for_signals_to_its_makers_group(tmp_path: pathlib.Path) -> None:
    mark = tmp_path / "mark"
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER + "\nprint('guarded', flush=True); signal.pause()", mark, ""],
        cwd=TOOLS, stdout=subprocess.PIPE, start_new_session=True)
    assert maker.stdout is not None
    assert maker.stdout.readline() == b"guarded\n"
    os.killpg(maker.pid, signal.SIGKILL)
    assert maker.stdout.read() == b""
    maker.wait(PATIENCE_SECONDS)
    assert mark.read_text(encoding="ascii") == "ended"


def test_processes_of_a_control_group_are_found_in_all_below_it_and_killed(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "CGROUPS", tmp_path)
    sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    for sleeper, folder in zip(sleepers, ["pids/ours/pod/container", "pids/ours-not"]):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").write_text(f"{sleeper.pid}\n", encoding="ascii")

    def alive() -> set[int]:
        return {pid for pid in ending.cgroup_processes("ours") if sleepers[0].poll() is None}

    assert alive() == {sleepers[0].pid}
    ending.kill_all(alive)
    assert sleepers[0].wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert sleepers[1].poll() is None
    sleepers[1].kill()
    sleepers[1].wait(PATIENCE_SECONDS)


def test_what_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "PATIENCE", 0)
    nobody = subprocess.Popen(["true"])
    nobody.wait(PATIENCE_SECONDS)
    with pytest.raises(TimeoutError, match=f"{nobody.pid}"):
        ending.kill_all(lambda: [nobody.pid])


def test_of_two_at_work_one_is_refused(tmp_path: pathlib.Path) -> None:
    first = cluster.MachineLock(tmp_path / "lock")
    with pytest.raises(cluster.Occupied, match="another ./run kubernetes is at work"):
        cluster.MachineLock(tmp_path / "lock")
    del first
    cluster.MachineLock(tmp_path / "lock")


def test_an_archive_is_an_image(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "program").write_text("#!/bin/sh\n", encoding="ascii")
    image_archive.write(root, "localhost/x:1", tmp_path / "x.tar", entrypoint=["/program"])
    with tarfile.open(tmp_path / "x.tar") as archive:
        content = {name: archive.extractfile(name).read()  # type: ignore[union-attr]
                   for name in archive.getnames()}
    manifest = json.loads(content["manifest.json"])[0]
    assert manifest["RepoTags"] == ["localhost/x:1"]
    settings = content[manifest["Config"]]
    assert manifest["Config"] == f"{hashlib.sha256(settings).hexdigest()}.json"
    layer = hashlib.sha256(content[manifest["Layers"][0]]).hexdigest()
    assert json.loads(settings)["rootfs"]["diff_ids"] == [f"sha256:{layer}"]
    assert json.loads(settings)["config"]["Entrypoint"] == ["/program"]


def test_trainers_that_were_told_to_end_have_not_failed() -> None:
    log = """a-0 Pending ,
a-0 Running ,
a-0 Failed 130,2026-01-01T00:00:00Z
b-0 Failed 1,
b-0 Failed 1,
c-0 Failed ,
d-0 Failed ,2026-01-01T00:00:00Z
e-0 Failed 137,2026-01-01T00:00:00Z
"""
    assert trainer_watch.failures(log) == ["b-0 Failed 1", "c-0 Failed", "e-0 Failed 137"]


def _event(event: str, sequence: int, at: int, shard: int = 0) -> dict[str, object]:
    return {"event": event, "client": "a", "shard": shard, "sequence": sequence, "t": at}


def test_only_an_answer_to_what_was_sent_since_a_moment_shows_recovery() -> None:
    events = [_event("invoke", 1, 10), _event("applied", 1, 30), _event("invoke", 2, 25),
              _event("applied", 2, 40), _event("invoke", 3, 26, shard=1)]
    assert increments.first_answer(events, 0, 5) == 30
    assert increments.first_answer(events, 0, 20) == 40
    assert increments.first_answer(events, 1, 20) is None
    # Sent before, and again since.
    again = [_event("invoke", 1, 10), _event("invoke", 1, 21), _event("applied", 1, 22)]
    assert increments.first_answer(again, 0, 20) == 22


class _FakeRelease(Release):
    """One whose objects are given."""

    def __init__(self, **objects: list[object]) -> None:
        self.objects = objects

    def get(self, kind: str, *arguments: object) -> list[object]:
        return self.objects[kind]


def _pod(uid: str, restarts: int, owner: str = "StatefulSet") -> dict[str, object]:
    return {"metadata": {"uid": uid, "ownerReferences": [{"kind": owner}]},
            "status": {"containerStatuses": [{"restartCount": restarts}]}}


def test_the_lives_of_servers_are_told_apart_by_pod_and_by_restart() -> None:
    release = _FakeRelease(pods=[_pod("a", 0), _pod("b", 2), _pod("c", 7, owner="Job")])
    assert release.lives() == {("a", 0), ("b", 2)}


@pytest.mark.parametrize(("ready_servers", "ready_trainers", "is_whole"), [
    (2, 2, True), (1, 2, False), (2, 1, False)])
def test_a_release_is_whole_when_all_its_pods_are_ready(
        ready_servers: int, ready_trainers: int, is_whole: bool) -> None:
    release = _FakeRelease(
        statefulsets=[{"spec": {"replicas": 2}, "status": {"readyReplicas": ready_servers}}],
        jobs=[{"spec": {"parallelism": 2}, "status": {"ready": ready_trainers}}])
    assert release.is_whole() == is_whole


@pytest.mark.parametrize(("epochs", "finished", "cancelled", "is_well"), [
    ([0, 1, 2], True, False, True), ([0, 2], True, False, False),
    ([0, 1, 1, 2], True, False, False), ([0, 1, 2], False, False, False),
    ([0, 1, 2], True, True, False)])
def test_a_job_has_each_of_its_epochs_once(epochs: list[int], finished: bool, cancelled: bool,
                                           is_well: bool) -> None:
    job = {"finished": finished, "cancelled": cancelled,
           "epochs": [{"epoch": epoch} for epoch in epochs]}
    if is_well:
        check_job(job, 3)
    else:
        with pytest.raises(cluster.ClusterError):
            check_job(job, 3)


class _Fault:
    """Of which a fake release knows whether it ends a server."""

    name = "a fault"
    spares_servers = True

    def __init__(self, release: _FakeRelease, restarts: int) -> None:
        self._release = release
        self._restarts = restarts

    def strike(self) -> None:
        self._release.objects["pods"] = [_pod("a", self._restarts)]

    def heal(self) -> None:
        pass


class _Training:
    """One that goes on by a sample whenever somebody looks."""

    def __init__(self) -> None:
        self._samples = 0

    def samples(self) -> int:
        self._samples += 1
        return self._samples

    def check_goes_on(self) -> None:
        pass


class _Increments:
    def wait_for_answers(self, since: int) -> float:
        return 1.5


def _play(restarts: int) -> dict[str, float]:
    release = _FakeRelease(pods=[_pod("a", 0)], statefulsets=[], jobs=[])
    steps = Steps()
    fault: Fault = _Fault(release, restarts)
    node_faults.Player(release, steps, _Training(), _Increments())(fault)  # type: ignore[arg-type]
    return steps.seconds


def test_what_a_fault_costs_is_told() -> None:
    seconds = _play(restarts=0)
    assert seconds["a fault: increments after its end"] == 1.5
    assert set(seconds) == {"a fault: lasted", *(
        f"a fault: {what} after its end" for what in ("increments", "training", "every pod"))}


def test_a_fault_that_has_to_spare_the_servers_does() -> None:
    with pytest.raises(cluster.ClusterError, match="a fault: a server was started again"):
        _play(restarts=1)
