"""A small cluster at work: a coordinator, two shards that log, a trainer; each with admin pages."""

import json

import metrics_text
import processes
from processes import Programs

SHARDS = 2
# Small steps and many of them; held-out points, so that checkpoints are written; a learning rate
# under which nothing is refused.
SETTINGS = ("--dim", 32, "--batch-size", 64, "--max-active", 200, "--epochs", 100000,
            "--patience", 100000, "--learning-rate", 0.002, "--in-flight", 2)


class SampleCluster:
    def __init__(self, programs: Programs) -> None:
        folder = programs.directory
        self._programs = programs
        self.coordinator = programs.start_coordinator(
            "--data-dir", folder / "coordinator", shards=SHARDS)
        self.shards = [
            programs.start_shard(
                self.coordinator, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                "--shard-id", shard, "--threads", 1, "--durability", "log-periodic",
                "--data-dir", folder / f"shard-{shard}", "--log-image-interval", "4MiB")
            for shard in range(SHARDS)]
        self.data = folder / "train.txt"
        processes.assert_ended(programs.run_dslide(
            "data", "gen", "--output", self.data, "--points", 3000, "--features", 1000, "--labels",
            2000, "--seed", 5), 0)
        self.trainer = programs.start(
            "dslide", "train", "--data", self.data, "--cluster", self.coordinator.address,
            "--job", "sample", "--threads", 1, "--admin", "127.0.0.1:0", *SETTINGS)
        trainer = self.trainer.wait_for_stderr(r"Metrics: http://(\S+)/metrics").group(1)
        # {program: [address of an admin page]}
        self.admins: dict[str, list[str]] = {
            "dslide-coordinator": [self.coordinator.admin],
            "dslide-shard": [shard.admin for shard in self.shards],
            "dslide-trainer": [trainer]}
        processes.wait_until(self._is_busy, lambda: "a step and a checkpoint", [self.trainer])

    def start_serving(self) -> None:
        """Adds a server of predictions of the model that is trained, and one of its data."""
        for program, *arguments in (
                ("dslide-serve", "serve", "--http", "127.0.0.1:0", "--cluster",
                 self.coordinator.address),
                ("dslide-data", "data", "serve", "--data", self.data)):
            server = self._programs.start(
                "dslide", *arguments, "-o", "json", "--listen", "127.0.0.1:0", "--admin",
                "127.0.0.1:0", "--threads", 1)
            server.wait_for_stdout(r"^\{.*\}$")
            self.admins[program] = [json.loads(server.stdout)["admin"]]

    def start_secured(self) -> None:
        """Adds a coordinator of another cluster, which has certificates."""
        folder = self._programs.directory / "certs"
        processes.assert_ended(
            self._programs.run_dslide("certs", "dev", "--output", folder), 0)
        secured = self._programs.start_coordinator(
            "--tls-ca", folder / "ca.crt", "--tls-cert", folder / "coordinator.crt",
            "--tls-key", folder / "coordinator.key")
        self.admins["tls"] = [secured.admin]

    def pages(self) -> dict[str, metrics_text.Page]:
        """{program: its page}, of the first process of each; "tls" is one that has certificates."""
        return {program: metrics_text.parse(processes.fetch(addresses[0]))
                for program, addresses in self.admins.items()}

    def _is_busy(self) -> bool:
        """Whether a checkpoint was written: then every metric has shown itself."""
        pages = self.pages()
        shard = pages["dslide-shard"]
        return ("dslide_shard_checkpoint_timestamp_seconds" in shard
                and shard["dslide_shard_image_seconds"].series > 0
                and "dslide_trainer_round_trip_seconds" in pages["dslide-trainer"])

    def stop(self) -> None:
        processes.assert_ended(self.trainer.stop(), 130)
        for server in [*self.shards, self.coordinator]:
            processes.assert_ended(server.process.stop(), 0)
