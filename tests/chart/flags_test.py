"""The real programs accept every flag, variable and setting that the chart renders."""

import os
import pathlib
import re
import subprocess

import chart
import pods
import pytest
from chart import Object, Objects, main_container
from processes import PATIENCE_SECONDS, bin_dir

pytestmark = pytest.mark.usefixtures("bin_dir")
SERVERS = ("dslide-shard", "dslide-coordinator")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("tls") / "certs"
    pods.run_certs("dev", "--output", folder)
    return folder


def program_of(server: Object) -> str:
    return str(main_container(server.spec.template).command[0])


def check_config(
    objects: Objects, server: Object, certificates: pathlib.Path, root: pathlib.Path,
) -> subprocess.CompletedProcess[str]:
    """The finished --check-config of the server as its first pod would run it."""
    pod, program = server.spec.template, program_of(server)
    container = main_container(pod)
    env = pods.environment(container, server.metadata.name + "-0")
    pods.write_files(objects, pod, root)
    for path in ("var/lib/dslide", "etc/dslide/tls", "etc/dslide/crl"):
        (root / path).mkdir(parents=True, exist_ok=True)
    for name, content in pods.tls_files(certificates, program.removeprefix("dslide-")).items():
        (root / "etc/dslide/tls" / name).write_bytes(content)
        (root / "etc/dslide/tls" / name).chmod(0o600)
    words = [pods.in_folder(pods.expand(word, env), root) for word in container.args]
    return subprocess.run(
        [bin_dir() / program, *words, "--check-config"], capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, env={"PATH": os.environ["PATH"], **env})


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_the_servers_accept_every_rendered_command_line(
        values: str, certificates: pathlib.Path, tmp_path: pathlib.Path) -> None:
    objects = chart.render_ci(values)
    for server in objects.servers():
        done = check_config(objects, server, certificates, tmp_path / program_of(server))
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_the_cli_knows_every_rendered_flag(values: str) -> None:
    for owner, pod in chart.render_ci(values).pods().items():
        for container in (item for item in chart.containers_of(pod) if item.command == ["dslide"]):
            words = [word for word in container.args if not word.startswith("-")]
            known = pods.known_flags("dslide") | pods.known_flags("dslide", *words)
            assert set(chart.flags(container)) <= known, f"{owner}: {container.name}"


def test_a_wrong_setting_is_noticed(certificates: pathlib.Path, tmp_path: pathlib.Path) -> None:
    objects = chart.render_insecure(shard={"config": {"max-cleints": 3}})
    done = check_config(objects, objects.shards(), certificates, tmp_path)
    assert done.returncode == 2
    assert "max-cleints" in done.stderr


def test_the_budgets_that_the_chart_reckons_with_are_those_of_the_program() -> None:
    template = (chart.CHART / "templates" / "_flags.tpl").read_text()
    reckoned = {name: (int(most), int(part)) for name, most, part in re.findall(
        r'"([a-z]+-budget)" \(list (\d+) (\d+)\)', template)}
    shown = subprocess.run(
        [bin_dir() / "dslide-shard", "--help"], capture_output=True, text=True, check=True,
        timeout=PATIENCE_SECONDS, env={"PATH": os.environ["PATH"]}).stdout
    mebibytes = {"512MiB": 512, "256MiB": 256, "128MiB": 128, "1GiB": 1024}
    parts = {"eighth": 8, "sixteenth": 16, "thirty-second part": 32}
    told = re.findall(r"--([a-z]+-budget) .*; 0: an? ([a-z -]+?)(?: of that limit)?, at most (\w+)",
                      shown)
    assert reckoned == {name: (mebibytes[most], parts[part]) for name, part, most in told}
    assert len(reckoned) == 4
