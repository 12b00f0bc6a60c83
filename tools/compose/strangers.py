"""Who must not get in, at the doors of a cluster with certificates: is any of them served?

usage: strangers.py --certificates DIR --foreign DIR --work DIR [--known NAME] [--revoked NAME]
                    ADDRESS...

DIRs are as `dslide certs dev` makes them: the cluster's, and those of another authority. The
strangers speak plaintext, show no certificate, one of the foreign authority, or one that has
expired. Beside them somebody known must be served at every door, or nothing would be shown.
--known and --revoked name one certificate more of the cluster's folder, and on which side it
stands: so it is seen that one was served before it was revoked. The last line of stdout is one JSON
object: refused (of `tried`), served (strangers that were, as NAME at ADDRESS), unknown (the known
who were not). Status 0 when all strangers were refused and all the known served, else 3.
"""

import argparse
import json
import pathlib
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from engine import Unavailable, run
from grpc_client import HEALTH, CallFailed, Connection, ConnectionLost
from processes import PATIENCE_SECONDS

PLAIN = "plaintext"
# The twin of the expired certificate differs from it in its days alone.
KNOWN = ("trainer", "twin of the expired")
# A stranger who has no answer by then was refused.
SECONDS = 5
FOUND = 3
# A certificate and its key.
Pair = tuple[pathlib.Path, pathlib.Path]
# {name: credentials, or None for plaintext}
Visitors = Mapping[str, grpc.ChannelCredentials | None]


def require() -> None:
    if not shutil.which("openssl"):
        raise Unavailable("openssl, which makes an expired certificate, is not installed")


def sign(certificates: pathlib.Path, directory: pathlib.Path, name: str, days: int) -> Pair:
    """A trainer's certificate and key by the authority in `certificates`, from now for `days`."""
    key, request, made = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
    run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", request, "-subj", "/CN=stranger",
         "-addext", "subjectAltName=URI:dslide://dslide/trainer"])
    run(["openssl", "x509", "-req", "-in", request, "-CA", certificates / "ca.crt",
         "-CAkey", certificates / "ca.key", "-days", days, "-copy_extensions", "copy",
         "-out", made])
    return made, key


def context(certificates: pathlib.Path, pair: Pair | None = None) -> grpc.ChannelCredentials:
    """A client's side of TLS that trusts the cluster and shows the pair, or none."""
    certificate, key = (path.read_bytes() for path in pair) if pair else (None, None)
    return grpc.ssl_channel_credentials((certificates / "ca.crt").read_bytes(), key, certificate)


def holder(folder: pathlib.Path, name: str) -> Pair:
    """The certificate and the key of that name in a folder of `dslide certs`."""
    return folder / f"{name}.crt", folder / f"{name}.key"


def make_visitors(certificates: pathlib.Path, foreign: pathlib.Path,
                  directory: pathlib.Path) -> dict[str, grpc.ChannelCredentials | None]:
    """The strangers and KNOWN."""
    expired = sign(certificates, directory, "expired", 0)
    twin = sign(certificates, directory, "twin", 1)
    time.sleep(1.5)  # its end is this second
    return {
        PLAIN: None,
        "no certificate": context(certificates),
        "foreign authority": context(certificates, holder(foreign, "trainer")),
        "expired": context(certificates, expired),
        "trainer": context(certificates, holder(certificates, "trainer")),
        "twin of the expired": context(certificates, twin),
    }


def served(address: str, tls: grpc.ChannelCredentials | None, seconds: float) -> bool:
    """Whether a call of the health service has an answer there in time."""
    try:
        with Connection(address, tls) as connection:
            connection.call_bytes(HEALTH, b"", seconds)
            return True
    except (CallFailed, ConnectionLost):
        return False


def knock(addresses: Sequence[str], visitors: Visitors,
          known: Sequence[str] = KNOWN) -> dict[str, Any]:
    """What became of all visitors at all addresses, as the JSON object above; strangers are those
    who are not known."""
    let_in = {(name, address) for name, tls in visitors.items() for address in addresses
              if served(address, tls, PATIENCE_SECONDS if name in known else SECONDS)}
    tried = [(name, address) for name in visitors if name not in known for address in addresses]
    return {
        "tried": len(tried),
        "refused": sum(visit not in let_in for visit in tried),
        "served": [f"{name} at {address}" for name, address in tried if (name, address) in let_in],
        "unknown": [f"{name} at {address}" for name in known for address in addresses
                    if (name, address) not in let_in],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for flag in ("--certificates", "--foreign", "--work"):
        parser.add_argument(flag, type=pathlib.Path, required=True)
    for flag in ("--known", "--revoked"):
        parser.add_argument(flag, metavar="NAME")
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    visitors = make_visitors(options.certificates, options.foreign, options.work)
    for name in filter(None, (options.known, options.revoked)):
        visitors[name] = context(options.certificates, holder(options.certificates, name))
    known = (*KNOWN, options.known) if options.known else KNOWN
    found = knock(options.addresses, visitors, known)
    print(json.dumps(found))
    return FOUND if found["served"] or found["unknown"] else 0


if __name__ == "__main__":
    sys.exit(main())
