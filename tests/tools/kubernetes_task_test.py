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
import pytest
import trainer_watch
from processes import PATIENCE_SECONDS

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
    log = "a-0 Pending \na-0 Running \na-0 Failed 130\nb-0 Failed 1\nb-0 Failed 1\nc-0 Failed \n"
    assert trainer_watch.failures(log) == ["b-0 Failed 1", "c-0 Failed "]
