"""Strangers at the doors of running programs: refused where there are certificates, seen where not.

usage: strangers_test.py --bin-dir DIR [unittest arguments]
"""

import sys

import strangers
from engine import ROOT, Unavailable

sys.path.append(str(ROOT / "tests/integration"))
import processes  # noqa: E402


class StrangersTest(processes.ProcessTest):
    def setUp(self):
        super().setUp()
        try:
            strangers.require()
        except Unavailable as reason:
            self.skipTest(str(reason))
        for name in ("own", "foreign"):
            made = self.run_dslide("certs", "dev", "--output", self.directory / name)
            self.assert_ended(made, 0)
        self.own = self.directory / "own"
        self.visitors = strangers.make_visitors(self.own, self.directory / "foreign",
                                                self.directory)

    def flags(self, role):
        return ["--tls-ca", self.own / "ca.crt", "--tls-cert", self.own / f"{role}.crt",
                "--tls-key", self.own / f"{role}.key"]

    def test_all_are_refused_by_servers_with_certificates(self):
        coordinator = self.start_coordinator(*self.flags("coordinator"))
        shard = self.start_shard(coordinator, "--shard-id", 0, *self.flags("shard"))
        found = strangers.knock([coordinator.address, shard.address], self.visitors)
        self.assertEqual(found, {"tried": 8, "refused": 8, "served": [], "unknown": []})

    def test_who_is_revoked_was_served_before(self):
        def certs(*arguments):
            self.assert_ended(self.run_dslide("certs", *arguments), 0)

        certs("issue", "--from", self.own, "--name", "stolen")
        certs("issue", "--from", self.own, "--name", "other")
        certs("revoke", "--from", self.own, self.own / "other.crt")
        coordinator = self.start_coordinator(*self.flags("coordinator"), "--tls-crl-dir",
                                             self.own / "crl")
        thief = {"stolen": strangers.context(self.own, strangers.holder(self.own, "stolen"))}
        doors, everybody = [coordinator.address], self.visitors | thief
        found = strangers.knock(doors, everybody, (*strangers.KNOWN, "stolen"))
        self.assertEqual(found, {"tried": 4, "refused": 4, "served": [], "unknown": []})
        found = strangers.knock(doors, everybody)
        self.assertEqual(found["served"], [f"stolen at {coordinator.address}"])
        certs("revoke", "--from", self.own, self.own / "stolen.crt")
        found = strangers.knock(doors, everybody)
        self.assertEqual(found, {"tried": 5, "refused": 5, "served": [], "unknown": []})

    def test_a_server_without_certificates_is_found_out(self):
        coordinator = self.start_coordinator()
        found = strangers.knock([coordinator.address], self.visitors)
        self.assertEqual(found["served"], [f"plaintext at {coordinator.address}"])
        self.assertEqual(len(found["unknown"]), len(strangers.KNOWN))

    def test_a_server_that_takes_every_certificate_is_found_out(self):
        # Certificates of its own, and no authority for those of others.
        coordinator = self.start_coordinator(*self.flags("coordinator")[2:])
        found = strangers.knock([coordinator.address], self.visitors)
        self.assertEqual((found["refused"], found["unknown"]), (1, []))


if __name__ == "__main__":
    processes.main()
