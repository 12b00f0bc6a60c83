"""The compose files, as an engine would read them."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import cases
import compose_check
from engine import PATIENCE_SECONDS

BASE = "deploy/compose/compose.yaml"
OVERLAYS = ("deploy/compose/compose.prometheus.yaml", "deploy/compose/compose.grafana.yaml")
TLS = "deploy/compose/compose.tls.yaml"
SERVERS = {"coordinator": "dslide-coordinator", "shard-0": "dslide-shard",
           "shard-1": "dslide-shard", "shard-2": "dslide-shard"}


def services(path):
    return cases.load_yaml(cases.interpolate(cases.read(path)))["services"]


class EveryServiceTest(unittest.TestCase):
    """What holds for all services of all files."""

    def each(self):
        for path in (BASE, *OVERLAYS):
            for name, service in services(path).items():
                with self.subTest(file=path, service=name):
                    yield service

    def test_images_are_pinned(self):
        for service in self.each():
            self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+$")

    def test_nothing_is_privileged(self):
        for service in self.each():
            self.assertIs(service["read_only"], True)
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertIn("no-new-privileges:true", service["security_opt"])
            self.assertRegex(service["user"], r"^[1-9]\d*:\d+$")
            for dangerous in ("privileged", "cap_add", "network_mode", "pid", "devices"):
                self.assertNotIn(dangerous, service)

    def test_ports_are_published_on_loopback(self):
        for service in self.each():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_no_shell_is_needed(self):
        for service in self.each():
            for words in (service.get("entrypoint", []), service.get("command", [])):
                self.assertIsInstance(words, list)
                self.assertNotRegex(" ".join(words), r"(^|/)(sh|bash) ")
            check = service.get("healthcheck", {"test": ["CMD"]})["test"]
            self.assertEqual(check[0], "CMD")

    def test_no_version_key(self):
        for path in (BASE, *OVERLAYS, TLS):
            self.assertNotRegex(cases.read(path), r"(?m)^version:")


class BaseTest(unittest.TestCase):
    def setUp(self):
        self.services = services(BASE)

    def test_the_services(self):
        self.assertEqual(set(self.services), {*SERVERS, "trainer"})
        self.assertEqual(self.services["coordinator"]["environment"]["DSLIDE_SHARDS"], "3")

    def test_servers_check_their_health_themselves(self):
        for name, program in SERVERS.items():
            service = self.services[name]
            self.assertEqual(service["entrypoint"], [f"/usr/bin/{program}"])
            self.assertEqual(service["healthcheck"]["test"], ["CMD", "/usr/bin/dslide", "health"])
            self.assertIn("DSLIDE_ADMIN", service["environment"])
            self.assertEqual(service["restart"], "unless-stopped")

    def test_shards_wait_for_a_healthy_coordinator_and_the_trainer_for_the_shards(self):
        for name in ("shard-0", "shard-1", "shard-2"):
            self.assertEqual(self.services[name]["depends_on"],
                             {"coordinator": {"condition": "service_healthy"}})
            self.assertEqual(self.services["trainer"]["depends_on"][name],
                             {"condition": "service_healthy"})

    def test_each_shard_is_itself(self):
        for number in range(3):
            service = self.services[f"shard-{number}"]
            environment = service["environment"]
            self.assertEqual(environment["DSLIDE_SHARD_ID"], str(number))
            self.assertEqual(environment["DSLIDE_ADVERTISE"], f"shard-{number}:7010")
            self.assertEqual(service["volumes"], [f"shard-{number}:/var/lib/dslide"])

    def test_stopping_leaves_time_for_the_drain(self):
        for name, program in SERVERS.items():
            grace = cases.seconds(self.services[name]["stop_grace_period"])
            self.assertGreaterEqual(grace, 4 * cases.drain_seconds(program))

    def test_settings_are_flags(self):
        for name, program in SERVERS.items():
            known = {f"DSLIDE_{flag.upper().replace('-', '_')}" for flag in cases.flags(program)}
            given = {key for key in self.services[name]["environment"] if key.startswith("DSLIDE_")}
            self.assertLessEqual(given, known)

    def test_settings_hold_together(self):
        for name, program in SERVERS.items():
            settings = "".join(
                f'{key.removeprefix("DSLIDE_").lower().replace("_", "-")} = "{value}"\n'
                for key, value in self.services[name]["environment"].items()
                if key.startswith("DSLIDE_"))
            self.assertEqual(cases.check_config(program, settings)[0], 0, (name, settings))

    def test_plaintext_stays_inside(self):
        data = cases.load_yaml(cases.interpolate(cases.read(BASE)))
        self.assertIs(data["networks"]["cluster"]["internal"], True)
        for service in self.services.values():
            self.assertEqual(service["networks"], ["cluster"])
            self.assertNotIn("ports", service)

    def test_the_trainer_runs_when_asked(self):
        self.assertEqual(self.services["trainer"]["profiles"], ["train"])

    def test_the_example_is_what_the_run_trains_on(self):
        self.assertEqual(self.services["trainer"]["command"], ["train", *compose_check.DATA])


class TlsOverlayTest(unittest.TestCase):
    """compose.tls.yaml over compose.yaml."""

    def setUp(self):
        self.base, self.services = services(BASE), services(TLS)

    def test_it_covers_every_service_and_adds_none(self):
        self.assertEqual(set(self.services), set(self.base))

    def test_nothing_speaks_plaintext(self):
        for name in SERVERS:
            self.assertEqual(self.services[name]["environment"]["DSLIDE_INSECURE"], "false")
        self.assertEqual(self.base["trainer"]["entrypoint"], ["/usr/bin/dslide", "--insecure"])
        self.assertEqual(self.services["trainer"]["entrypoint"], ["/usr/bin/dslide"])

    def test_each_role_has_its_own_certificate_and_all_have_the_lists(self):
        for name, service in self.services.items():
            role = name.partition("-")[0]
            self.assertEqual(service["volumes"], [f"./tls/{role}:/etc/dslide/tls:ro",
                                                  "./tls/crl:/etc/dslide/crl:ro"], name)

    def test_the_programs_take_the_settings(self):
        with tempfile.TemporaryDirectory() as folder:
            certs = cases.certificates(pathlib.Path(folder) / "certs")
            cases.revoke(certs, "trainer")
            for name, program in SERVERS.items():
                role = name.partition("-")[0]
                tls = pathlib.Path(folder) / "tls" / name
                tls.mkdir(parents=True)
                for source, kept in (("ca.crt", "ca.crt"), (f"{role}.crt", "tls.crt"),
                                     (f"{role}.key", "tls.key")):
                    shutil.copy(certs / source, tls / kept)
                settings = self.base[name]["environment"] | self.services[name]["environment"]
                text = "".join(f'{key.removeprefix("DSLIDE_").lower().replace("_", "-")} = "{value}"\n'
                               for key, value in settings.items() if key.startswith("DSLIDE_"))
                text = text.replace("/etc/dslide/tls", str(tls)).replace("/var/lib", folder)
                here = text.replace("/etc/dslide/crl", str(certs / "crl"))
                status, said = cases.check_config(program, here)
                self.assertEqual(status, 0, (name, said))
                # Everything else is found: it starts but for the directory of lists.
                gone = text.replace("/etc/dslide/crl", f"{folder}/none")
                status, said = cases.start_error(program, gone)
                self.assertEqual(status, 2, (name, said))
                self.assertIn(f"{folder}/none (--tls-crl-dir)", said)


class EnvironmentFileTest(unittest.TestCase):
    def test_it_names_what_the_files_use(self):
        used = set()
        for path in (BASE, *OVERLAYS):
            used |= set(re.findall(r"\$\{(\w+):", cases.read(path)))
        given = dict(re.findall(r"^(\w+)=(.*)$", cases.read("deploy/compose/.env"), re.MULTILINE))
        self.assertLessEqual(set(given), used)
        for name in ("DSLIDE_IMAGE", "DSLIDE_EXAMPLE_IMAGE"):
            self.assertTrue(given[name].endswith(f":{cases.project_version()}"), given[name])

    def test_defaults_are_the_same(self):
        given = dict(re.findall(r"^(\w+)=(.*)$", cases.read("deploy/compose/.env"), re.MULTILINE))
        for path in (BASE, *OVERLAYS):
            for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", cases.read(path)):
                self.assertEqual(given.get(name, default), default, name)


class ScrapeTest(unittest.TestCase):
    def test_every_server_is_scraped(self):
        config = cases.load_yaml(cases.read("deploy/compose/prometheus.yaml"))
        targets = {target for job in config["scrape_configs"]
                   for static in job.get("static_configs", []) for target in static["targets"]}
        wanted = {f"{name}:{service['environment']['DSLIDE_ADMIN'].rpartition(':')[2]}"
                  for name, service in services(BASE).items() if name in SERVERS}
        self.assertEqual(targets, wanted)

    def test_the_jobs_are_those_of_the_alerts(self):
        config = cases.load_yaml(cases.read("deploy/compose/prometheus.yaml"))
        self.assertEqual([job["job_name"] for job in config["scrape_configs"]],
                         ["dslide-coordinator", "dslide-shard", "dslide-trainer"])

    def test_prometheus_takes_the_file(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool here; apt-get install prometheus")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "rules").mkdir()
            (pathlib.Path(folder) / "rules/alerts.yaml").write_text("groups: []\n")
            copy = shutil.copy(cases.DEPLOY / "compose/prometheus.yaml", folder)
            done = subprocess.run(["promtool", "check", "config", copy], capture_output=True,
                                  text=True, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class OracleTest(unittest.TestCase):
    """The helpers of these tests see what they are for."""

    def test_durations(self):
        self.assertEqual(cases.seconds("1m30s"), 90)
        self.assertEqual(cases.seconds("2min"), 120)
        with self.assertRaises(ValueError):
            cases.seconds("soon")

    def test_interpolation(self):
        self.assertEqual(cases.interpolate("a: ${B:-c} ${D:?e}"), "a: c given")


if __name__ == "__main__":
    cases.main()
