"""What render.py makes of inventories: golden files, settings that the programs take, refusals."""

import pathlib
import stat
import sys
import tempfile
import unittest

import cases

sys.path.insert(0, str(cases.DEPLOY / "compose/vms"))
import render  # noqa: E402

GOLDEN = pathlib.Path(__file__).with_name("golden")
EXAMPLE = cases.read("deploy/compose/vms/inventory.example.toml")
PLAIN = EXAMPLE.replace("tls = true", "tls = false").replace("crl = true", "crl = false")
# Golden files are made anew by: render.py INVENTORY --output tests/deploy/golden/vms [--systemd]
SMALL = """
[[machine]]
name = "one"
address = "fd00::1"
coordinator = true
shards = [0, 1, 2]
trainer = "/data"
"""


class RenderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = pathlib.Path(folder.name)

    def rendered(self, text, **options):
        """{name: text} of what is written."""
        names = render.render(text, self.output, **options)
        return {name: (self.output / name).read_text(encoding="utf-8") for name in names}

    def test_the_example_is_as_agreed(self):
        made = self.rendered(EXAMPLE) | self.rendered(EXAMPLE, systemd=True)
        golden = {path.relative_to(GOLDEN / "vms").as_posix(): path.read_text(encoding="utf-8")
                  for path in (GOLDEN / "vms").rglob("*") if path.is_file()}
        self.assertEqual(set(made), set(golden))
        for name, text in made.items():
            self.assertEqual(text, golden[name], name)

    def test_files_are_those_of_compose(self):
        for text in (EXAMPLE, PLAIN, SMALL):
            for name, file in self.rendered(text).items():
                for service in cases.load_yaml(file)["services"].values():
                    self.assertIs(service["read_only"], True, name)
                    self.assertEqual(service["cap_drop"], ["ALL"])
                    self.assertEqual(service["user"], cases.USER)
                    if "healthcheck" in service:
                        self.assertEqual(service["healthcheck"]["test"],
                                         ["CMD", "/usr/bin/dslide", "health"])

    def test_stopping_leaves_time_for_the_drain(self):
        for file in self.rendered(EXAMPLE).values():
            for name, service in cases.load_yaml(file)["services"].items():
                program = "dslide-shard" if name.startswith("shard") else "dslide-coordinator"
                self.assertGreaterEqual(cases.seconds(service["stop_grace_period"]),
                                        4 * cases.drain_seconds(program))

    def test_the_programs_take_the_settings(self):
        for text in (PLAIN, SMALL.replace("[[machine]]", "[cluster]\ntls = false\n[[machine]]")):
            made = self.rendered(text, systemd=True)
            self.assertTrue(made)
            for name, settings in made.items():
                program = "dslide-shard" if "/shard" in name else "dslide-coordinator"
                status, said = cases.check_config(program, settings)
                self.assertEqual(status, 0, (name, said))

    def test_the_names_of_the_flags_of_tls(self):
        known = cases.flags("dslide-shard")
        if "tls-cert" not in known:
            self.skipTest("these programs have no TLS")
        self.assertLessEqual({"tls-cert", "tls-key", "tls-ca", "tls-crl-dir", "tls-cluster"}, known)

    def test_the_programs_take_the_settings_of_tls(self):
        certs = cases.certificates(self.output / "certs")
        cases.revoke(certs, "trainer")
        made = self.rendered(EXAMPLE, certificates=certs, systemd=True)
        self.assertEqual(len(made), 4)
        for name, settings in made.items():
            program = "dslide-shard" if "/shard" in name else "dslide-coordinator"
            self.assertIn('tls-crl-dir = "/etc/dslide/crl"\n', settings)
            machine = (self.output / name).parent
            here = settings.replace("/etc/dslide/", f"{machine}/").replace("/var/lib", str(machine))
            status, said = cases.check_config(program, here)
            self.assertEqual(status, 0, (name, said))
            # Everything else is found: it starts but for the directory of lists.
            gone = here.replace('/crl"', '/none"')
            status, said = cases.start_error(program, gone)
            self.assertEqual(status, 2, (name, said))
            self.assertIn(f"{machine}/none (--tls-crl-dir)", said)

    def test_ports_of_a_machine_differ(self):
        file = cases.load_yaml(self.rendered(SMALL)["one/compose.yaml"])
        published = [port.rpartition(":")[0] for service in file["services"].values()
                     for port in service["ports"]]
        self.assertEqual(len(published), len(set(published)))
        self.assertIn("[fd00::1]:7030", published)

    def test_plaintext_is_named_insecure(self):
        for file in self.rendered(PLAIN).values():
            for name, service in cases.load_yaml(file)["services"].items():
                if name == "trainer":
                    self.assertEqual(service["entrypoint"], ["/usr/bin/dslide", "--insecure"])
                else:
                    self.assertEqual(service["environment"]["DSLIDE_INSECURE"], "true")
                self.assertNotIn("DSLIDE_TLS_CERT", service["environment"])
        for file in self.rendered(EXAMPLE).values():
            self.assertNotIn("INSECURE", file)
            self.assertNotIn("--insecure", file)

    def test_certificates_are_laid_out(self):
        source = self.output / "certs"
        source.mkdir()
        for role in ("coordinator", "shard", "trainer"):
            (source / f"{role}.crt").write_text(f"certificate of {role}")
            (source / f"{role}.key").write_text(f"key of {role}")
        (source / "ca.crt").write_text("authority")
        for _ in range(2):  # A second time replaces.
            self.rendered(EXAMPLE, certificates=source)
        key = self.output / "vm-a/tls/shard-0/tls.key"
        self.assertEqual(key.read_text(), "key of shard")
        self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o400)
        self.assertEqual((self.output / "vm-d/tls/trainer/ca.crt").read_text(), "authority")
        self.assertEqual(list((self.output / "vm-a/crl").iterdir()), [])
        (source / "shard.key").unlink()
        with self.assertRaisesRegex(render.InventoryError, "no shard.key"):
            self.rendered(EXAMPLE, certificates=source)


    def test_everybody_looks_into_the_machines_lists(self):
        for name, file in self.rendered(EXAMPLE).items():
            for service in cases.load_yaml(file)["services"].values():
                self.assertEqual(service["environment"]["DSLIDE_TLS_CRL_DIR"], "/etc/dslide/crl", name)
                self.assertIn("./crl:/etc/dslide/crl:ro", service["volumes"])
        for text in (PLAIN, SMALL):
            for file in self.rendered(text).values():
                self.assertNotIn("crl", file.lower())

    def test_lists_are_added_and_not_replaced(self):
        source = self.output / "certs"
        (source / "crl").mkdir(parents=True)
        for name in ("ca.crt", *(f"{role}.{end}" for role in ("coordinator", "shard", "trainer")
                                 for end in ("crt", "key"))):
            (source / name).write_text(name)
        for number in (0, 1):
            (source / f"crl/01234567.r{number}").write_text(f"list {number}")
            self.rendered(EXAMPLE, certificates=source)
            for machine in ("vm-a", "vm-d"):
                made = sorted((self.output / machine / "crl").iterdir())
                self.assertEqual([path.read_text() for path in made],
                                 ["list 0", "list 1"][: number + 1])
                self.assertEqual(stat.S_IMODE(made[0].stat().st_mode), 0o444)
        (source / "crl/01234567.r0").write_text("another")
        with self.assertRaisesRegex(render.InventoryError, "01234567.r0 is another list"):
            self.rendered(EXAMPLE, certificates=source)


class RefusalTest(unittest.TestCase):
    """What does not hold together is refused, with its name."""

    CASES = (
        ("not TOML", "[[machine", "not TOML"),
        ("unknown table", "[machines]\n", "unknown table 'machines'"),
        ("unknown field", SMALL + "shard = 1\n", "unknown field 'shard'"),
        ("wrong type", SMALL.replace("[0, 1, 2]", '"0"'), "shards is '0'"),
        ("bad name", SMALL.replace("one", "../one"), "'../one'"),
        ("host name", SMALL.replace("fd00::1", "host.example"), "host.example"),
        ("no coordinator", SMALL.replace("coordinator = true", ""), "it is on 0"),
        ("two coordinators", SMALL + SMALL.replace("one", "two").replace("::1", "::2"), "it is on 2"),
        ("a gap", SMALL.replace("[0, 1, 2]", "[0, 2]"), r"\[0, 2\]"),
        ("no shards", SMALL.replace("[0, 1, 2]", "[]"), r"are \[\]"),
        ("a name twice", SMALL + '[[machine]]\nname = "one"\naddress = "fd00::2"\n', "'one'"),
        ("an address twice", SMALL + '[[machine]]\nname = "two"\naddress = "fd00::1"\n', "fd00::1"),
        ("durability", '[cluster]\ndurability = "yes"\n' + SMALL, "durability is 'yes'"),
        ("lists without TLS", "[cluster]\ntls = false\ncrl = true\n" + SMALL, "crl = true with tls = false"),
        ("relative data", SMALL.replace('"/data"', '"data"'), "trainer is 'data'"),
    )

    def test_refusals(self):
        for name, text, message in self.CASES:
            with self.subTest(name), self.assertRaisesRegex(render.InventoryError, message):
                render.read_inventory(text)

    def test_a_machine_without_work(self):
        text = SMALL + '[[machine]]\nname = "idle"\naddress = "fd00::2"\n'
        cluster, machines = render.read_inventory(text)
        with self.assertRaisesRegex(render.InventoryError, "'idle'"):
            render.compose_file(cluster, machines, machines[1])


if __name__ == "__main__":
    cases.main()
