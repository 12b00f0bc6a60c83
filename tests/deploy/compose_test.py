"""The compose files, as an engine would read them."""

import pathlib
import re
import shutil
import subprocess
from typing import Any

import cases
import compose_check
import pytest
import yaml
from processes import PATIENCE_SECONDS

FOLDER = "deploy/compose"
BASE = cases.read(f"{FOLDER}/compose.yaml")
TLS = cases.read(f"{FOLDER}/compose.tls.yaml")
OVERLAYS = [cases.read(f"{FOLDER}/compose.{name}.yaml") for name in ("prometheus", "grafana")]
GIVEN = dict(re.findall(r"^(\w+)=(.*)$", cases.read(f"{FOLDER}/.env"), re.MULTILINE))
SERVICES, SECURE = cases.services(BASE), cases.services(TLS)
EVERY = [service for text in (BASE, *OVERLAYS) for service in cases.services(text).values()]
SHARDS = ("shard-0", "shard-1", "shard-2")
SERVERS = {"coordinator": "dslide-coordinator", **dict.fromkeys(SHARDS, "dslide-shard")}
SCRAPED = yaml.safe_load(cases.read(f"{FOLDER}/prometheus.yaml"))["scrape_configs"]
every_service = pytest.mark.parametrize("service", EVERY)
every_server = pytest.mark.parametrize(("name", "program"), SERVERS.items())


@every_service
def test_images_are_pinned(service: Any) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])


@every_service
def test_nothing_is_privileged(service: Any) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert re.fullmatch(r"[1-9]\d*:\d+", service["user"])
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(service)


@every_service
def test_ports_are_published_on_loopback(service: Any) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@every_service
def test_no_shell_is_needed(service: Any) -> None:
    for words in (service.get("entrypoint", []), service.get("command", [])):
        assert isinstance(words, list)
        assert not re.search(r"(^|/)(sh|bash) ", " ".join(words))
    assert service.get("healthcheck", {"test": ["CMD"]})["test"][0] == "CMD"


@pytest.mark.parametrize("text", [BASE, TLS, *OVERLAYS])
def test_no_version_key(text: str) -> None:
    assert "version" not in yaml.safe_load(cases.interpolate(text))


def test_the_services() -> None:
    assert set(SERVICES) == {*SERVERS, "trainer", "serve"}
    assert SERVICES["coordinator"]["environment"]["DSLIDE_SHARDS"] == "3"


@every_server
def test_servers_check_their_health_themselves(name: str, program: str) -> None:
    service = SERVICES[name]
    assert service["entrypoint"] == [f"/usr/bin/{program}"]
    assert service["healthcheck"]["test"] == ["CMD", "/usr/bin/dslide", "health"]
    assert "DSLIDE_ADMIN" in service["environment"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SHARDS)
def test_shards_wait_for_a_healthy_coordinator_and_the_trainer_for_the_shards(name: str) -> None:
    healthy = {"condition": "service_healthy"}
    assert SERVICES[name]["depends_on"] == {"coordinator": healthy}
    assert SERVICES["trainer"]["depends_on"][name] == healthy


@pytest.mark.parametrize("number", range(3))
def test_each_shard_is_itself(number: int) -> None:
    service = SERVICES[f"shard-{number}"]
    assert service["environment"]["DSLIDE_SHARD_ID"] == str(number)
    assert service["environment"]["DSLIDE_ADVERTISE"] == f"shard-{number}:7010"
    assert service["volumes"] == [f"shard-{number}:/var/lib/dslide"]


@every_server
def test_stopping_leaves_time_for_the_drain(name: str, program: str) -> None:
    grace = cases.seconds(SERVICES[name]["stop_grace_period"])
    assert grace >= 4 * cases.drain_seconds(program)


@every_server
def test_settings_are_flags_and_hold_together(name: str, program: str) -> None:
    environment = SERVICES[name]["environment"]
    known = {f"DSLIDE_{flag.upper().replace('-', '_')}" for flag in cases.flags(program)}
    assert {key for key in environment if key.startswith("DSLIDE_")} <= known
    cases.assert_accepted(program, cases.settings_of(environment))


def test_plaintext_stays_inside() -> None:
    networks = yaml.safe_load(cases.interpolate(BASE))["networks"]
    assert networks["cluster"]["internal"] is True
    for name, service in SERVICES.items():
        if name != "serve":
            assert service["networks"] == ["cluster"]
            assert "ports" not in service


def test_predictions_are_served_when_asked_on_a_network_of_their_own() -> None:
    service = SERVICES["serve"]
    assert service["profiles"] == ["serve"]
    assert service["networks"] == ["cluster", "callers"]
    assert service["volumes"] == ["trainer:/var/lib/dslide:ro"]
    assert service["ports"] == ["127.0.0.1:7031:7031"]
    flags = cases.flags("dslide") | cases.flags("dslide", "serve")
    known = {f"DSLIDE_{flag.upper().replace('-', '_')}" for flag in flags}
    assert {key for key in service["environment"] if key.startswith("DSLIDE_")} <= known


def test_the_trainer_runs_when_asked() -> None:
    assert SERVICES["trainer"]["profiles"] == ["train"]


def test_the_example_is_what_the_run_trains_on() -> None:
    assert SERVICES["trainer"]["command"] == ["train", *compose_check.DATA]


# compose.tls.yaml over compose.yaml.


def test_tls_covers_every_service_and_adds_none() -> None:
    assert set(SECURE) == set(SERVICES)


def test_with_tls_nothing_speaks_plaintext() -> None:
    for name in SERVERS:
        assert SECURE[name]["environment"]["DSLIDE_INSECURE"] == "false"
    assert SERVICES["trainer"]["entrypoint"] == ["/usr/bin/dslide", "--insecure"]
    for name in ("trainer", "serve"):
        assert SECURE[name]["entrypoint"] == ["/usr/bin/dslide"]


@pytest.mark.parametrize("name", SECURE)
def test_each_role_has_its_own_certificate_and_all_have_the_lists(name: str) -> None:
    assert SECURE[name]["volumes"] == [f"./tls/{name.partition('-')[0]}:/etc/dslide/tls:ro",
                                       "./tls/crl:/etc/dslide/crl:ro"]


@every_server
def test_the_programs_take_the_settings_of_tls(
        name: str, program: str, tmp_path: pathlib.Path) -> None:
    certs, tls = cases.certificates(tmp_path / "certs"), tmp_path / "tls"
    role = name.partition("-")[0]
    tls.mkdir()
    for source, kept in (("ca.crt", "ca.crt"), (f"{role}.crt", "tls.crt"),
                         (f"{role}.key", "tls.key")):
        shutil.copy(certs / source, tls / kept)
    text = cases.settings_of(SERVICES[name]["environment"] | SECURE[name]["environment"])
    text = text.replace("/etc/dslide/tls", str(tls)).replace("/var/lib", str(tmp_path))
    cases.assert_accepted(program, text.replace("/etc/dslide/crl", str(certs / "crl")))
    cases.assert_no_start_without_lists(
        program, text.replace("/etc/dslide/crl", f"{tmp_path}/none"), f"{tmp_path}/none")


def test_the_environment_file_names_what_the_files_use() -> None:
    used = set(re.findall(r"\$\{(\w+):", "".join([BASE, *OVERLAYS])))
    assert set(GIVEN) <= used
    for name in ("DSLIDE_IMAGE", "DSLIDE_EXAMPLE_IMAGE"):
        assert GIVEN[name].endswith(f":{cases.project_version()}")


def test_defaults_are_the_same() -> None:
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", "".join([BASE, *OVERLAYS])):
        assert GIVEN.get(name, default) == default, name


def test_every_server_is_scraped() -> None:
    targets = {target for job in SCRAPED for static in job.get("static_configs", [])
               for target in static["targets"]}
    admins = {name: SERVICES[name]["environment"]["DSLIDE_ADMIN"] for name in SERVERS}
    assert targets == {f"{name}:{admin.rpartition(':')[2]}" for name, admin in admins.items()}


def test_the_jobs_are_those_of_the_alerts() -> None:
    jobs = [job["job_name"] for job in SCRAPED]
    assert jobs == ["dslide-coordinator", "dslide-shard", "dslide-trainer"]


@pytest.mark.skipif(not shutil.which("promtool"),
                    reason="no promtool here; apt-get install prometheus")
def test_prometheus_takes_the_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/alerts.yaml").write_text("groups: []\n")
    copy = shutil.copy(cases.ROOT / FOLDER / "prometheus.yaml", tmp_path)
    done = subprocess.run(["promtool", "check", "config", copy], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


# The helpers of these tests see what they are for.


@pytest.mark.parametrize(("text", "seconds"), [("1m30s", 90), ("2min", 120)])
def test_durations(text: str, seconds: int) -> None:
    assert cases.seconds(text) == seconds
    with pytest.raises(ValueError, match="soon"):
        cases.seconds("soon")


def test_interpolation() -> None:
    assert cases.interpolate("a: ${B:-c} ${D:?e}") == "a: c given"
