"""The run on another host where it cannot run, what it does with the root, and what it reads."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import build_root
import debian_root
import host_run
import pytest
from debian_root import DebianRoot
from engine import CommandFailed, Unavailable, run
from processes import PATIENCE_SECONDS, SKIPPED

PROGRAM = pathlib.Path(host_run.__file__)


def run_program(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, env=os.environ | variables)


def test_it_is_skipped_loudly() -> None:
    done = run_program("-o", "json", PATH="/nonexistent")
    assert done.returncode == SKIPPED, done.stderr
    assert "SKIPPED: debootstrap, unshare, chroot not installed" in done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["held"] is False
    assert "debootstrap" in figures["unavailable"]


@pytest.mark.parametrize(("arguments", "said"), [
    (["--suite", "../x"], "give a name such as trixie"), (["--grpc", "mine"], "invalid choice")])
def test_wrong_use(arguments: list[str], said: str) -> None:
    done = run_program(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_what_it_reads(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, upstream in (("9.10.0-1+b1", "9.10.0"), ("4:14.2.0-1", "14.2.0"),
                              ("1.16+dfsg-2+deb13u1", "1.16"), ("", "")):
        assert host_run.upstream(version) == upstream
    text = 'noise\n{"passed": 7, "failed": 1, "skipped": 2, "seconds": 3}\n'
    assert host_run.read_counts(text)["failed"] == 1
    with pytest.raises(CommandFailed, match="without its counts"):
        host_run.read_counts("run: it broke\n")
    variables = {"DSLIDE_CACHE_DIR": str(tmp_path), "DSLIDE_JOBS": "3", "SECRET": "x"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = host_run.parse(["--grpc", "experimental", "--", "--only", "--grpc"])
    assert options.root == tmp_path / "hosts/trixie-grpc-experimental"
    assert options.arguments == ["--only", "--grpc"]
    # The root sees no more of this environment than it needs.
    given = build_root.environment()
    assert given.items() >= {"HOME": "/root", "DSLIDE_JOBS": "3"}.items()
    assert "SECRET" not in given


def test_a_newer_suite_is_made_like_unstable(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bookworm").touch()
    known = debian_root.bootstrap_command("bookworm", "/r", "http://m", tmp_path)
    assert known == ["debootstrap", "--variant=minbase", "bookworm", "/r", "http://m"]
    newer = debian_root.bootstrap_command("trixie", "/r", "http://m", tmp_path)
    assert newer == [*known[:2], "trixie", *known[3:], str(tmp_path / "sid")]


def test_a_folder_of_something_else_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(CommandFailed, match="neither empty nor a Debian"):
        DebianRoot("trixie", tmp_path).make()
    assert (tmp_path / "mine").read_text() == "precious"


def test_apt_inside_reaches_its_mirrors_as_apt_outside_does(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "etc/apt/apt.conf.d"
    settings.mkdir(parents=True)
    kept = 'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\n'
    shown = mock.Mock(stdout=kept + 'Acquire::Retries "3";\n')
    monkeypatch.setattr(debian_root, "run", lambda command: shown)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/apt-config")
    DebianRoot("trixie", tmp_path).take_apt_settings()
    assert (settings / "90outside").read_text() == kept


def test_programs_inside_trust_whom_this_machine_trusts(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside, root = tmp_path / "own.crt", DebianRoot("trixie", tmp_path / "root")
    for module in (debian_root, build_root):
        monkeypatch.setattr(module, "AUTHORITIES", outside)
    root.take_authorities()
    assert "PIP_CERT" not in build_root.environment()
    outside.write_text("an authority")
    root.take_authorities()
    for name in ("PIP_CERT", "SSL_CERT_FILE"):
        inside = build_root.environment()[name].lstrip("/")
        assert (root.folder / inside).read_text() == "an authority"


def test_localhost_has_a_name_inside(tmp_path: pathlib.Path) -> None:
    hosts = tmp_path / "etc/hosts"
    hosts.parent.mkdir()
    DebianRoot("bookworm", tmp_path).name_localhost()
    assert hosts.read_text().splitlines() == ["127.0.0.1 localhost", "::1 localhost"]
    hosts.write_text("127.0.0.1 localhost mine\n")
    DebianRoot("bookworm", tmp_path).name_localhost()
    assert "mine" in hosts.read_text()


def commit(tree: pathlib.Path, text: str) -> None:
    (tree / "file").write_text(text)
    run(["git", "-C", tree, "add", "file"])
    run(["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", text])


def test_the_last_commit_is_taken_and_what_was_built_stays(tmp_path: pathlib.Path) -> None:
    tree, root = tmp_path / "tree", DebianRoot("trixie", tmp_path / "root")
    root.folder.mkdir()
    run(["git", "init", "-q", tree])
    commit(tree, "one")
    first = root.take_sources(tree)
    (root.folder / "src/build").mkdir()
    commit(tree, "two")
    (tree / "file").write_text("not committed")
    assert root.take_sources(tree) != first
    assert (root.folder / "src/file").read_text() == "two"
    assert (root.folder / "src/build").is_dir()


def test_a_root_has_the_gRPC_that_was_asked_for() -> None:
    """Looked at each time: the versions may have been raised since the root was made."""
    for grpc, wanted in (("debian", []), ("experimental", [
            ("/src/deploy/image/newer-grpc.sh", debian_root.MIRROR)])):
        root = mock.Mock(mirror=debian_root.MIRROR, suite="trixie",
                         **{"run.return_value": 0, "take_sources.return_value": "abc"})
        assert build_root.prepare(root, grpc) == "abc"
        root.take_authorities.assert_called_once_with()
        root.name_localhost.assert_called_once_with()
        assert [call.args[0] for call in root.run.call_args_list] == wanted
    root.run.return_value = 1
    with pytest.raises(CommandFailed, match="newer-grpc.sh ended with 1"):
        build_root.prepare(root, "experimental")


def test_a_root_is_of_one_run_at_a_time(tmp_path: pathlib.Path) -> None:
    first, second = (DebianRoot("trixie", tmp_path / "hosts/root") for _ in range(2))
    first.lock()
    with pytest.raises(CommandFailed, match="in use by another run"):
        second.lock()


def inside(script: str, within: float = PATIENCE_SECONDS) -> tuple[int, str]:
    """A command run inside a root, for which this machine's own serves; its status and output."""
    try:
        debian_root.require()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with tempfile.TemporaryFile("w+") as output, mock.patch("shutil.copyfile"):
        status = DebianRoot("own", "/").run(
            ["/bin/sh", "-c", script], {"PATH": build_root.PATH, "A": "b"}, within, output)
        output.seek(0)
        return status, output.read()


def test_a_command_has_its_status_its_environment_and_processes_of_its_own() -> None:
    status, text = inside("echo $A $$ ${HOME-none}; exit 3")
    letter, number, home = text.split()
    assert (status, letter, home) == (3, "b", "none")
    assert int(number) < 10


def test_mounts_end_with_the_command() -> None:
    found = inside("mount -t tmpfs dslide-mark /mnt && grep -c dslide-mark /proc/mounts")
    assert found == (0, "1\n")
    assert "dslide-mark" not in pathlib.Path("/proc/self/mounts").read_text()


def test_what_hangs_is_killed() -> None:
    with pytest.raises(CommandFailed, match="no end within 0.5 s"):
        inside("sleep 600", within=0.5)
