"""What a loss of power takes from a shard in mode log-periodic, its clients are told.

usage: power_loss_test.py --bin-dir DIR [unittest arguments]

Power cannot be cut here. What it leaves can be had: the directory as it was some updates ago.
"""

import shutil

import fault_paths  # noqa: F401
import grpc_client
import processes
import shard_client
from processes import metric

JOB = "power"
CLIENT = b"keeps the answers"[:16]
TABLE = shard_client.table_spec("cells", 64, 16)
MODEL = shard_client.model_spec("cells", TABLE)


class PowerLossTest(processes.ProcessTest):
    def start_one(self):
        """(process, connection, page) of a shard on its own."""
        shard = self.start(
            "dslide-shard", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--coordinator", "",
            "--threads", 1, "--disk-reserve", 0, "--data-dir", self.data, "--durability",
            "log-periodic")
        found = shard.wait_for_stderr(r" serving address=(\S+) admin=(\S+)")
        return shard, self.enterContext(grpc_client.Connection(found.group(1))), found.group(2)

    @staticmethod
    def update(connection, sequence):
        envelope = shard_client.envelope_of(JOB, CLIENT, sequence, sequence, 0, MODEL.name)
        shard_client.scatter_add(connection, envelope, TABLE, {5: [1.0] * TABLE.dim})

    def test_a_client_that_is_still_known_is_told_too(self):
        self.data = self.directory / "data"
        shard, connection, _ = self.start_one()
        shard_client.create_model(connection, MODEL)
        self.assertEqual(shard_client.hello(connection, JOB, CLIENT, 0).next_sequence, 1)
        for sequence in (1, 2, 3):
            self.update(connection, sequence)
        shard.kill()
        shutil.copytree(self.data, self.directory / "synced")

        shard, connection, page = self.start_one()
        self.assertEqual(shard_client.hello(connection, JOB, CLIENT, 3).next_sequence, 4)
        self.assertEqual(metric(page, "dslide_shard_acked_loss_total"), 0)
        for sequence in (4, 5, 6, 7):
            self.update(connection, sequence)
        shard.kill()

        shutil.rmtree(self.data)
        (self.directory / "synced").rename(self.data)
        _, connection, page = self.start_one()
        for _ in range(2):
            self.assertEqual(shard_client.hello(connection, JOB, CLIENT, 7).next_sequence, 4)
        self.assertEqual(metric(page, "dslide_shard_acked_loss_total"), 8)  # at each question


if __name__ == "__main__":
    processes.main()
