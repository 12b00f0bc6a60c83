"""What a loss of power takes from a shard in mode log-periodic, its clients are told.

Power cannot be cut here. What it leaves can be had: the directory as it was some updates ago.
"""

from __future__ import annotations

import shutil

import shard_client
from grpc_client import Connection
from process_case import ProcessCase
from processes import Process, metric

JOB = "power"
CLIENT = b"keeps the answers"[:16]
TABLE = shard_client.table_spec("cells", 64, 16)
MODEL = shard_client.model_spec("cells", TABLE)


class PowerLossTest(ProcessCase):
    def start_one(self) -> tuple[Process, Connection, str]:
        """(process, connection, page) of a shard on its own."""
        shard = self.programs.start_lone_shard(
            "--admin", "127.0.0.1:0", "--disk-reserve", 0, "--data-dir", self.data, "--durability",
            "log-periodic")
        return shard.process, self.enter(Connection(shard.address)), shard.admin

    @staticmethod
    def update(connection: Connection, sequence: int) -> None:
        envelope = shard_client.envelope_of(JOB, CLIENT, sequence, sequence, 0, MODEL.name)
        shard_client.scatter_add(connection, envelope, TABLE, {5: [1.0] * TABLE.dim})

    def test_a_client_that_is_still_known_is_told_too(self) -> None:
        self.data = self.directory / "data"
        shard, connection, _ = self.start_one()
        shard_client.create_model(connection, MODEL)
        assert shard_client.hello(connection, JOB, CLIENT, 0).next_sequence == 1
        for sequence in (1, 2, 3):
            self.update(connection, sequence)
        shard.kill()
        shutil.copytree(self.data, self.directory / "synced")

        shard, connection, page = self.start_one()
        assert shard_client.hello(connection, JOB, CLIENT, 3).next_sequence == 4
        assert metric(page, "dslide_shard_acked_loss_total") == 0
        for sequence in (4, 5, 6, 7):
            self.update(connection, sequence)
        shard.kill()

        shutil.rmtree(self.data)
        (self.directory / "synced").rename(self.data)
        _, connection, page = self.start_one()
        for _ in range(2):
            assert shard_client.hello(connection, JOB, CLIENT, 7).next_sequence == 4
        assert metric(page, "dslide_shard_acked_loss_total") == 8  # at each question
