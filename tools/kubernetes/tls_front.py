"""Ends TLS in front of a server that has none.

usage: tls_front.py CERTIFICATE KEY HOST PORT TO_PORT

Whoever connects to HOST:PORT speaks with 127.0.0.1:TO_PORT. Runs until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(1 << 16):
            writer.write(content)
            await writer.drain()
    writer.close()


async def _serve(certificate: str, key: str, host: str, port: int, to_port: int) -> None:
    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", to_port)
        await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(join, host, port, ssl=context)
    await server.serve_forever()


def main() -> None:
    certificate, key, host, port, to_port = sys.argv[1:]
    asyncio.run(_serve(certificate, key, host, int(port), int(to_port)))


if __name__ == "__main__":
    main()
