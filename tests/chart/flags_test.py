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


def test_a_wrong_setting_is_noticed(certificates: pathlib.Path, tmp_path: pathlib.Path) -> None:
    objects = chart.render_insecure(shard={"config": {"max-cleints": 3}})
    done = check_config(objects, objects.shards(), certificates, tmp_path)
    assert done.returncode == 2
    assert "max-cleints" in done.stderr


def test_the_budgets_that_the_chart_reckons_with_are_those_of_the_program() -> None:
    template = (chart.CHART / "templates" / "_flags.tpl").read_text()
    reckoned = dict(re.findall(r'"([a-z]+-budget)" "(\w+)"', template))
    shown = subprocess.run(
        [bin_dir() / "dslide-shard", "--print-config"], capture_output=True, text=True, check=True,
        timeout=PATIENCE_SECONDS, env={"PATH": os.environ["PATH"]}).stdout
    budgets = dict(re.findall(r'(?m)^([a-z]+-budget) = "(\w+)"', shown))
    del budgets["memory-budget"]
    assert reckoned == budgets
    assert len(reckoned) == 4


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_the_programs_read_every_rendered_variable(values: str) -> None:
    for server in chart.render_ci(values).servers():
        known = set(re.findall(r"\[env (\w+)\]", pods.help_text(program_of(server))))
        given = {item.name for item in main_container(server.spec.template).env or []}
        assert {name for name in given if name.startswith("DSLIDE_")} <= known


@pytest.mark.parametrize("program", SERVERS)
def test_the_chart_sets_every_flag_that_it_keeps_users_from_setting(program: str) -> None:
    given = {flag for _, objects in chart.every_ci() for server in objects.servers()
             if program_of(server) == program for flag in chart.flags_of(server)}
    for flag in sorted(given - {"max-clients", "heartbeat-interval"}):
        with pytest.raises(chart.RenderError):
            chart.render_insecure(
                **{program.removeprefix("dslide-"): {"extraArgs": [f"--{flag}=x"]}})


def split_command(args: list[str]) -> tuple[list[str], list[str], list[str]]:
    """(global flags, subcommand words, flags of the subcommand)."""
    is_word = [not word.startswith("-") for word in args]
    first = is_word.index(True)
    after = is_word.index(False, first) if False in is_word[first:] else len(args)
    return args[:first], args[first:after], args[after:]


@pytest.mark.parametrize("values", chart.CI_NAMES)
def test_the_command_line_program_knows_what_is_rendered(values: str) -> None:
    """Subcommands, flags and variables, those of users' init containers too."""
    for pod in chart.render_ci(values).pods().values():
        for container in chart.containers_of(pod):
            if container.command != ["dslide"]:
                continue
            before, words, after = split_command(container.args)
            assert words[0] in pods.subcommands(), container.name
            for place, known in ((before, pods.known_flags("dslide")),
                                 (after, pods.known_flags("dslide", *words))):
                assert {re.split("[=]", word[2:])[0] for word in place} <= known, container.name
            text = pods.help_text("dslide") + pods.help_text("dslide", *words)
            variables = [item.name for item in container.env or []]
            assert [name for name in variables
                    if name.startswith("DSLIDE_") and name not in text] == [], container.name
