"""A cluster of processes that know each other by certificates trains as one in plaintext does."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import socket
import ssl
from collections.abc import Sequence

import processes
import training
from process_case import ProcessCase
from processes import Finished, Process, Server, assert_ended

OK, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


def context(authorities: str, certificate: pathlib.Path, key: pathlib.Path) -> ssl.SSLContext:
    """That of a client with a certificate, which trusts authorities (PEM)."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(cadata=authorities)
    made.load_cert_chain(certificate, key)
    made.set_alpn_protocols(["h2"])
    return made


def answers(server: Server, identity: ssl.SSLContext, certificate: bytes) -> bool:
    """Whether a server shows the certificate (DER) and takes the client's: then it speaks."""
    host, _, port = server.address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), processes.PATIENCE_SECONDS) as plain, \
                identity.wrap_socket(plain) as connection:
            shown = connection.getpeercert(binary_form=True)
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, *bytes(5)]))
            return shown == certificate and connection.recv(1) != b""
    except OSError:
        return False


class TlsCase(ProcessCase):
    """A cluster and a certificate for each role."""

    SHARDS = 2
    # One trainer, one step under way: every run applies the same commands in the same order.
    SETTINGS = ["--dim", 64, "--batch-size", 128, "--in-flight", 1, "--max-active", 300,
                "--learning-rate", 0.008, "--seed", 5, "--threads", 1, "--validation-fraction", 0]

    def set_up(self) -> None:
        super().set_up()
        self.certificates = self.directory / "current"
        self.renewals = 0
        made = self.run_dslide("certs", "dev", "--output", self.directory / "set-0", "-o", "json")
        assert_ended(made, OK)
        assert "reader.key" in made.json()["files"]
        self.certificates.symlink_to("set-0")

    def flags(self, role: str) -> list[object]:
        return ["--tls-ca", self.certificates / "ca.crt",
                "--tls-cert", self.certificates / f"{role}.crt",
                "--tls-key", self.certificates / f"{role}.key"]

    def start_tls_cluster(self, *arguments: object) -> tuple[Server, list[Server]]:
        coordinator = self.start_coordinator(*self.flags("coordinator"), *arguments,
                                             shards=self.SHARDS)
        shards = [self.start_shard(coordinator, "--shard-id", shard, "--threads", 1,
                                   *self.flags("shard"), *arguments)
                  for shard in range(self.SHARDS)]
        return coordinator, shards


class TlsClusterTest(TlsCase):
    def renew(self, servers: Sequence[tuple[Server, str]]) -> None:
        """A new set of certificates, of an authority that the old one's holders do not know.

        So the authorities' file of the new set holds both, as an operator would do it. Returns when
        all servers, [(server, role)], go by it.
        """
        self.renewals += 1
        before = self.certificates.resolve()
        after = self.directory / f"set-{self.renewals}"
        assert_ended(self.run_dslide("certs", "dev", "--output", after), OK)
        both = (before / "ca.crt").read_text() + (after / "ca.crt").read_text()
        mixed = self.directory / f"mixed-{self.renewals}"
        # First everybody trusts both, then everybody shows new certificates.
        shutil.copytree(before, mixed)
        for directory in (mixed, after):
            (directory / "ca.crt").write_text(both)
            link = self.directory / "link"
            link.symlink_to(directory.name)
            os.replace(link, self.certificates)
            # With a certificate of the new authority: only who trusts that answers.
            identity = context(both, after / "operator.crt", after / "operator.key")
            for server, role in servers:
                shown = ssl.PEM_cert_to_DER_cert((directory / f"{role}.crt").read_text())
                processes.wait_until(
                    functools.partial(answers, server, identity, shown),
                    functools.partial("the certificates of {}".format, directory),
                    alive=[server.process])

    def start_plain_cluster(self) -> Server:
        coordinator = self.start_coordinator(shards=self.SHARDS)
        for shard in range(self.SHARDS):
            self.start_shard(coordinator, "--shard-id", shard, "--threads", 1)
        return coordinator

    def train(self, coordinator: Server, data: training.DataSet, *flags: object,
              epochs: int = 2) -> Process:
        return self.start("dslide", "train", "-q", "-o", "json", "--cluster", coordinator.address,
                          *data.flags(), *self.SETTINGS, "--epochs", epochs, *flags)

    def test_training_over_tls_gives_the_result_of_plaintext(self) -> None:
        data = training.generate(self, points=3000, features=500, labels=600, test_points=300)
        plain = self.train(self.start_plain_cluster(), data).finish()
        assert_ended(plain, OK)
        coordinator, shards = self.start_tls_cluster()
        secured = self.train(coordinator, data, *self.flags("trainer")).finish()
        assert_ended(secured, OK)
        print(f"plaintext {plain.json()['p_at_1']:.4f}, TLS {secured.json()['p_at_1']:.4f}; "
              f"{plain.json()['samples_per_second']:.0f} and "
              f"{secured.json()['samples_per_second']:.0f} samples/s", flush=True)
        for field in ("loss", "p_at_1", "p_at_3", "p_at_5", "steps"):
            assert plain.json()[field] == secured.json()[field], field
        assert secured.json()["p_at_1"] > 0.1
        top = self.run_dslide("top", "--cluster", coordinator.address, "--once", "--interval",
                              "100ms", "-o", "json", *self.flags("reader"))
        assert_ended(top, OK)
        assert {row["address"]: row["process"] for row in top.json()["processes"]} == {
            shard.admin: f"shard {number}" for number, shard in enumerate(shards)}
        for server in [*shards, coordinator]:
            assert processes.metric(server.admin, "dslide_server_tls") == 1
            assert processes.metric(server.admin, "dslide_server_denied_calls_total") == 0
            assert_ended(server.process.stop(), OK)

    def test_training_goes_on_while_certificates_and_authority_are_renewed(self) -> None:
        data = training.generate(self, points=3000, test_points=100)
        coordinator, shards = self.start_tls_cluster("--tls-reload-interval", "500ms")
        trainer = self.train(coordinator, data, *self.flags("trainer"), epochs=1000)
        processes.wait_until(
            lambda: processes.metric(shards[0].admin, "dslide_server_connections"),
            lambda: "a connection", alive=[trainer])
        for _ in range(2):
            self.renew([(coordinator, "coordinator"), *((shard, "shard") for shard in shards)])
        assert trainer.running(), trainer
        # A client that comes now shows the newest certificate and accepts that of the servers.
        status = self.run_dslide("status", "--cluster", coordinator.address,
                                 *self.flags("operator"))
        assert_ended(status, OK)
        assert f"{self.SHARDS} of {self.SHARDS} shards" in status.stdout
        assert_ended(trainer.stop(), INTERRUPTED)
        for server in [*shards, coordinator]:
            assert_ended(server.process.stop(), OK)

    def test_a_certificate_that_is_bound_to_a_job_trains_that_job_alone(self) -> None:
        data = training.generate(self, points=3000, test_points=100)
        coordinator, shards = self.start_tls_cluster()
        issued = self.run_dslide("certs", "issue", "--from", self.certificates, "--job", "run-1",
                                 "--job", "query", "--name", "ann", "-o", "json")
        assert_ended(issued, OK)
        assert issued.json()["files"] == ["ann.crt", "ann.key"]
        denied = self.train(coordinator, data, *self.flags("ann"), "--job", "run-2", epochs=1)
        assert_ended(denied.finish(), USAGE,
                     r'job "run-2" is not for this certificate', r'"run-1" or "query"')
        kept = self.directory / "model"
        trained = self.train(coordinator, data, *self.flags("ann"), "--job", "run-1", "--name",
                             "mine", "--model-dir", kept, epochs=1).finish()
        assert_ended(trained, OK)
        assert trained.json()["epochs"] == 1
        measured = ["eval", "-o", "json", "--cluster", coordinator.address, "--model-dir", kept,
                    "--data", data.test]
        # Measurements are of no job: any certificate that may read makes them.
        for holder in ("ann", "reader"):
            assert_ended(self.run_dslide(*measured, *self.flags(holder)), OK)
        servers = [*shards, coordinator]
        counts = [processes.metric(server.admin, "dslide_server_denied_calls_total") or 0
                  for server in servers]
        assert sum(counts) >= 1
        for server in servers:
            assert_ended(server.process.stop(), OK)

    def test_who_is_not_known_is_turned_away(self) -> None:
        coordinator, _ = self.start_tls_cluster()
        status = ["status", "--cluster", coordinator.address]
        foreign = self.directory / "foreign"
        assert_ended(self.run_dslide("certs", "dev", "--output", foreign), OK)
        unknown = [self.start("dslide", *status, "--timeout", "10s", *flags) for flags in (
            [], ["--tls-ca", self.certificates / "ca.crt"],
            ["--tls-ca", self.certificates / "ca.crt", "--tls-cert", foreign / "operator.crt",
             "--tls-key", foreign / "operator.key"])]
        for process in unknown:
            assert_ended(process.finish(), USAGE,
                         "the handshake failed: check --tls-ca, --tls-cert and --tls-key")
        denied = self.run_dslide(*status, *self.flags("trainer"))
        assert_ended(denied, USAGE, r"role trainer may not call \S+GetClusterStatus",
                     r"that is for operator or reader")
        for role in ("operator", "reader"):
            assert_ended(self.run_dslide(*status, *self.flags(role)), OK)
        top = self.run_dslide("top", "--once", "--interval", "200ms", "--cluster",
                              coordinator.address, *self.flags("reader"))
        assert_ended(top, OK)

    def test_the_doctor_sees_what_a_certificate_may_see(self) -> None:
        coordinator, shards = self.start_tls_cluster()
        doctor = ["doctor", "-o", "json", "--cluster", coordinator.address, "--admin",
                  f"{coordinator.admin},{shards[0].admin}"]
        result = self.run_dslide(*doctor, *self.flags("reader"))
        # These servers keep nothing.
        assert_ended(result, FAILURE)
        said = str(result.json()["findings"])
        assert "keeps no cluster checkpoints" in said
        assert "its certificate is good for" in said
        assert "'error'" not in said
        denied = self.run_dslide(*doctor, *self.flags("trainer"))
        assert_ended(denied, FAILURE)
        assert "use a certificate with the role reader or operator" in denied.stdout


class HealthTest(ProcessCase):
    def health(self, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
        return self.start("dslide", "health", *arguments, environment=environment).finish()

    def test_health_follows_readiness(self) -> None:
        coordinator = self.start_coordinator()
        waiting = processes.Server(self.start(
            "dslide-shard", "--admin", "127.0.0.1:0",
            "--coordinator", f"127.0.0.1:{processes.free_port()}"))
        assert_ended(self.health("--admin", coordinator.admin), OK)
        port = coordinator.admin.rpartition(":")[2]
        assert_ended(self.health(environment={"DSLIDE_ADMIN": f"0.0.0.0:{port}"}), OK)
        assert_ended(self.health("--admin", waiting.admin), FAILURE, "not ready")
        assert_ended(self.health("--admin", waiting.admin, "--live"), OK)
        assert_ended(self.health("--admin", f"127.0.0.1:{processes.free_port()}"), FAILURE,
                     "no answer from the admin page")
        assert_ended(self.health("--admin", coordinator.address, "--timeout", "2s"), FAILURE)
        assert_ended(self.health("--admin", "nonsense"), USAGE, "not an address")
