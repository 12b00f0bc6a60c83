"""The same over mutual TLS, and what a wrong certificate says."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import SMALL_SPEC, SOON, free_port

import dslide


@pytest.fixture(scope="module")
def certificates(run_dslide: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("own", "other"):
        run_dslide("certs", "dev", "--output", folder / name)
    return folder


def _tls(folder: pathlib.Path, role: str) -> dslide.Tls:
    return dslide.Tls(ca=folder / "ca.crt", cert=folder / f"{role}.crt", key=folder / f"{role}.key")


@pytest.fixture(scope="module")
def address(bin_dir: pathlib.Path, certificates: pathlib.Path) -> Iterator[str]:
    """The coordinator of two shards that know each other by certificates."""
    coordinator = f"127.0.0.1:{free_port()}"
    own = certificates / "own"

    def start(program: Any, role: Any, *arguments: object) -> subprocess.Popen[bytes]:
        flags = [
            "--tls-ca",
            own / "ca.crt",
            "--tls-cert",
            own / f"{role}.crt",
            "--tls-key",
            own / f"{role}.key",
            "--admin",
            "",
        ]
        return subprocess.Popen(
            [bin_dir / program, *map(str, [*arguments, *flags])], stderr=subprocess.DEVNULL
        )

    with contextlib.ExitStack() as servers:

        def run(*arguments: object) -> None:
            server = start(*arguments)
            servers.callback(server.wait)
            servers.callback(server.kill)

        run("dslide-coordinator", "coordinator", "--listen", coordinator, "--shards", 2)
        for shard in range(2):
            places = ("--coordinator", coordinator, "--listen", "127.0.0.1:0")
            run("dslide-shard", "shard", *places, "--shard-id", shard, "--threads", 1)
        deadline = time.monotonic() + 300
        while True:
            try:
                dslide.connect(coordinator, tls=_tls(own, "trainer")).close()
                break
            except dslide.UnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield coordinator


def test_trains_and_reads_rows_over_tls(
    address: str, certificates: pathlib.Path, small_data: pathlib.Path
) -> None:
    with (
        dslide.connect(address, tls=_tls(certificates / "own", "trainer")) as cluster,
        dslide.Trainer(
            cluster, SMALL_SPEC, small_data / "train.txt", max_steps=20, progress=False
        ) as trainer,
    ):
        model = cluster.model("small")
        first = model.gather("labels", [0, 1])
        assert trainer.train().steps == 20
        assert model.gather("labels", [0, 1]).shape == first.shape
        model.scatter("labels", [0], np.ones((1, 32)), mode="add")


@pytest.mark.parametrize(
    ("folder", "role", "kind", "words"),
    [
        ("other", "trainer", dslide.UnavailableError, "handshake failed: check tls.ca"),
        (None, "", dslide.UnavailableError, "start the coordinator"),
    ],
)
def test_wrong_certificates(
    address: str,
    certificates: pathlib.Path,
    folder: str | None,
    role: str,
    kind: type[dslide.DslideError],
    words: str,
) -> None:
    tls = _tls(certificates / folder, role) if folder else None
    start = time.monotonic()
    with pytest.raises(kind, match=words):
        dslide.connect(address, tls=tls)
    assert time.monotonic() - start < SOON


def test_a_role_that_may_only_read(address: str, certificates: pathlib.Path) -> None:
    with (
        dslide.connect(address, tls=_tls(certificates / "own", "reader")) as cluster,
        pytest.raises(dslide.PermissionDeniedError),
    ):
        cluster.create_model({"name": "mine", "tables": [{"name": "a", "rows": 5, "dim": 2}]})
