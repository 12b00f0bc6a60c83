"""A killed shard equals a twin that was not killed; one that differs by a bit is found out."""

from __future__ import annotations

import processes
import shard_client
import twin
from grpc_client import Connection
from process_case import ProcessCase

TABLE = shard_client.table_spec("cells", 64, 16, init="uniform", optimizer="adam")
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

    def start_shard_anew(self) -> None:
        self.shard = self.programs.start_lone_shard(
            "--listen", self.address, "--data-dir", self.directory / "data", "--durability",
            "log").process
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

    def killed_and_replayed(self, live: twin.Digests) -> tuple[list[str], twin.Restored]:
        """How the shard's twin differs from it, and what the twin has found."""
        self.shard.kill()
        copy = self.directory / "twin"
        twin.copy_log(self.directory / "data", copy)
        replayed, found = twin.replay(copy, copy / "process", [MODEL.name])
        return twin.differing(live, replayed), found

    def digests(self) -> twin.Digests:
        return twin.settled_digests_of(self.address, [MODEL.name])

    def test_a_killed_shard_equals_its_twin(self) -> None:
        for _ in range(3):
            self.add(5)
            self.shard.kill()
            self.start_shard_anew()
        live = self.digests()
        assert live["rows/cells"][0] == 15
        differing, found = self.killed_and_replayed(live)
        assert (differing, found.image) == ([], 0)
        assert found.replayed > 15
        self.start_shard_anew()
        assert twin.restored(self.shard).digest == found.digest

    def test_one_update_more_or_less_or_another_bit_is_found(self) -> None:
        self.add(5)
        before = self.digests()
        self.add(1)
        differing, _ = self.killed_and_replayed(before)
        assert len(differing) == 1
        assert "rows/cells" in differing[0]
        live = {"rows/cells": (5, "00000000000000ff")}
        (line,) = twin.differing(live, {"rows/cells": (5, "00000000000000fe")})
        assert "(5, '00000000000000fe')" in line
        assert "None in the twin" in twin.differing(live, {})[0]

    def test_newer_images_are_no_part_of_a_twin(self) -> None:
        for _ in range(2):
            self.add(5)
            assert self.shard.stop().code == 0  # writes an image
            self.start_shard_anew()
        differing, found = self.killed_and_replayed(self.digests())
        assert differing == []
        self.start_shard_anew()
        newest = twin.restored(self.shard)
        assert found.image < newest.image
        assert found.replayed > newest.replayed
        assert found.digest == newest.digest
