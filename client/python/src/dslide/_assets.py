"""Assets of a model: named bytes at the coordinator, as sets that never change."""

from __future__ import annotations

from collections.abc import Mapping

from google_crc32c import value as crc32c

from dslide._connection import Connection
from dslide.errors import DataLossError, InvalidArgumentError, NotFoundError
from dslide.v1 import coordinator_pb2

_PIECE = 1 << 20  # bytes of a call
_SEND_ATTEMPTS = 3  # a coordinator that was restarted has nothing of what was sent
_LIST = "FILES"


async def model_assets(connection: Connection, name: str) -> dict[str, bytes]:
    """What a model has, by name: labels.txt, features.tsv, ... (docs/understand/wire.md#assets).

    Raises DataLossError naming what is not as it was written; NotFoundError for no such model.
    """
    return (await read_set(connection, name))[0]


async def read_set(connection: Connection, name: str) -> tuple[dict[str, bytes], int]:
    """And the checksum of the set; 0: there is none."""
    listed = await connection.coordinator.call(
        "ListModelAssets", coordinator_pb2.ListModelAssetsRequest(model=name)
    )
    files = {}
    for asset in listed.assets:
        request = coordinator_pb2.ReadModelAssetRequest(
            model=name, checksum=listed.checksum, name=asset.name
        )
        data = bytearray()
        while len(data) < asset.bytes:
            request.offset = len(data)
            piece = (await connection.coordinator.call("ReadModelAsset", request)).data
            if not piece:
                break
            data += piece
        files[asset.name] = bytes(data)
        if len(data) != asset.bytes or crc32c(files[asset.name]) != asset.crc32c:
            raise DataLossError(
                f"asset {asset.name!r} of model {name!r} arrived with {len(data)} bytes and "
                f"CRC-32C {crc32c(files[asset.name]):08x}, was written with {asset.bytes} and "
                f"{asset.crc32c:08x}: it is damaged on the coordinator's disk"
            )
    return files, listed.checksum


async def put_model_assets(
    connection: Connection, name: str, files: Mapping[str, bytes], *, replaces: int | None = None
) -> int:
    """Makes a set the model's, whole and at once; its checksum.

    files : 1 to 32 names of letters, digits, '.', '_' and '-', with their bytes
    replaces : also when the model has the set of this checksum; None: only when it has none, or
        this one

    Raises FailedPreconditionError (ASSETS_DIFFER) when the model has another set.
    """
    if not files or _LIST in files:
        raise InvalidArgumentError(
            f"the assets are {', '.join(sorted(files)) or 'none'}: give at least one, and none "
            f"that is called {_LIST}"
        )
    lines = [f"{crc32c(files[each]):08x} {len(files[each])} {each}" for each in sorted(files)]
    text = "".join(f"{line}\n" for line in ["dslide files 1", *lines]).encode()
    checksum: int = crc32c(text)
    commit = coordinator_pb2.CommitModelAssetsRequest(
        model=name, checksum=checksum, replaces=replaces
    )
    sent = {**files, _LIST: text + b"crc32c %08x\n" % checksum}
    for attempt in range(_SEND_ATTEMPTS):
        try:
            for each, data in sent.items():
                await _send(connection, name, checksum, each, data)
            await connection.coordinator.call("CommitModelAssets", commit)
            break
        except NotFoundError as error:
            if error.reason != "UNKNOWN_ASSETS" or attempt + 1 == _SEND_ATTEMPTS:
                raise
    return checksum


async def _send(connection: Connection, model: str, checksum: int, name: str, data: bytes) -> None:
    for offset in range(0, max(len(data), 1), _PIECE):
        await connection.coordinator.call(
            "WriteModelAsset",
            coordinator_pb2.WriteModelAssetRequest(
                model=model,
                checksum=checksum,
                name=name,
                offset=offset,
                data=data[offset : offset + _PIECE],
            ),
        )
