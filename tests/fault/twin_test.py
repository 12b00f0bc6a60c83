"""A killed shard equals a twin that was not killed; one that differs by a bit is found out."""

from __future__ import annotations

import processes
import shard_client
import twin
from grpc_client import Connection
from process_case import ProcessCase

TABLE = shard_client.table_spec("cells", 64, 16, init="uniform",
                           optimizer="adam")
MODEL = shard_client.model_spec("rows", TABLE)
CLIENT = b"one of the tests"


class TwinTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        self.sequence = 0
        self.address = f"127.0.0.1:{processes.free_port()}"
        self.start_shard_anew()
        with Connection(self.address) as connection:
            shard_client.create_model(connection, MODEL)

    def start_shard_anew(self, *arguments: object) -> None:
        self.shard = self.start(
            "dslide-shard", "--listen", self.address, "--admin", "", "--coordinator", "",
            "--data-dir", self.directory / "data", "--durability", "log", *arguments)
        self.shard.wait_for_stderr(" shard ready ")

    def add(self, count: int) -> None:
        with Connection(self.address) as connection:
            generation = shard_client.hello(connection, "job", CLIENT, self.sequence).generation
            for _ in range(count):
                self.sequence += 1
                envelope = shard_client.envelope_of("job", CLIENT, self.sequence, self.sequence,
                                                 generation, MODEL.name)
                rows = {self.sequence % TABLE.rows: [0.1 * self.sequence] * TABLE.dim}
                shard_client.scatter_add(connection, envelope, TABLE, rows)

    def replay(self, name: str) -> tuple[twin.Digests, twin.Restored]:
        copy = self.directory / name
        twin.copy_log(self.directory / "data", copy)
        return twin.replay(copy, copy / "process", [MODEL.name])

    def test_a_killed_shard_equals_its_twin(self) -> None:
        for _ in range(3):
            self.add(5)
            self.shard.kill()
            self.start_shard_anew()
        live = twin.settled_digests_of(self.address, [MODEL.name])
        assert live["rows/cells"][0] == 15
        self.shard.kill()
        replayed, found = self.replay("twin")
        assert twin.differing(live, replayed) == []
        assert found.image == 0
        assert found.replayed > 15
        self.start_shard_anew()
        assert twin.restored(self.shard).digest == found.digest

    def test_one_update_more_or_less_is_found(self) -> None:
        self.add(5)
        before = twin.settled_digests_of(self.address, [MODEL.name])
        self.add(1)
        self.shard.kill()
        replayed, _ = self.replay("twin")
        differing = twin.differing(before, replayed)
        assert len(differing) == 1
        assert "rows/cells" in differing[0]

    def test_the_same_count_and_another_bit_is_found(self) -> None:
        live = {"rows/cells": (5, "00000000000000ff")}
        assert twin.differing(live, dict(live)) == []
        assert (
            "(5, '00000000000000fe')"
            in twin.differing(live, {"rows/cells": (5, "00000000000000fe")})[0])
        assert "None in the twin" in twin.differing(live, {})[0]

    def test_newer_images_are_no_part_of_a_twin(self) -> None:
        for _ in range(2):
            self.add(5)
            assert self.shard.stop().code == 0  # writes an image
            self.start_shard_anew()
        live = twin.settled_digests_of(self.address, [MODEL.name])
        self.shard.kill()
        replayed, found = self.replay("twin")
        assert twin.differing(live, replayed) == []
        self.start_shard_anew()
        newest = twin.restored(self.shard)
        assert found.image < newest.image
        assert found.replayed > newest.replayed
        assert found.digest == newest.digest
