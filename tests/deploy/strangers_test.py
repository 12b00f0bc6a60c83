"""Strangers at the doors of running programs: refused where there are certificates, else seen."""

import pathlib
from typing import Any

import pytest
import strangers
from engine import Unavailable
from processes import Programs, assert_ended

NOBODY: dict[str, list[str]] = {"served": [], "unknown": []}
pytestmark = pytest.mark.usefixtures("bin_dir")


@pytest.fixture
def own(programs: Programs) -> pathlib.Path:
    """The certificates of a cluster; those of another authority are beside them."""
    try:
        strangers.require()
    except Unavailable as reason:
        pytest.skip(str(reason))
    for name in ("own", "foreign"):
        made = programs.run_dslide("certs", "dev", "--output", programs.directory / name)
        assert_ended(made, 0)
    return programs.directory / "own"


@pytest.fixture
def visitors(own: pathlib.Path) -> dict[str, Any]:
    return strangers.make_visitors(own, own.with_name("foreign"), own.parent)


def flags(own: pathlib.Path, role: str) -> list[object]:
    return ["--tls-ca", own / "ca.crt", "--tls-cert", own / f"{role}.crt", "--tls-key",
            own / f"{role}.key"]


def test_all_are_refused_by_servers_with_certificates(
        programs: Programs, own: pathlib.Path, visitors: dict[str, Any]) -> None:
    coordinator = programs.start_coordinator(*flags(own, "coordinator"))
    shard = programs.start_shard(coordinator, "--shard-id", 0, *flags(own, "shard"))
    found = strangers.knock([coordinator.address, shard.address], visitors)
    assert found == {"tried": 8, "refused": 8, **NOBODY}


def test_who_is_revoked_was_served_before(
        programs: Programs, own: pathlib.Path, visitors: dict[str, Any]) -> None:
    def certs(*arguments: object) -> None:
        assert_ended(programs.run_dslide("certs", *arguments), 0)

    for name in ("stolen", "other"):
        certs("issue", "--from", own, "--name", name)
    certs("revoke", "--from", own, own / "other.crt")
    coordinator = programs.start_coordinator(
        *flags(own, "coordinator"), "--tls-crl-dir", own / "crl")
    visitors |= {"stolen": strangers.context(own, strangers.holder(own, "stolen"))}
    doors = [coordinator.address]
    found = strangers.knock(doors, visitors, (*strangers.KNOWN, "stolen"))
    assert found == {"tried": 4, "refused": 4, **NOBODY}
    found = strangers.knock(doors, visitors)
    assert found["served"] == [f"stolen at {coordinator.address}"]
    certs("revoke", "--from", own, own / "stolen.crt")
    assert strangers.knock(doors, visitors) == {"tried": 5, "refused": 5, **NOBODY}


def test_a_server_without_certificates_is_found_out(
        programs: Programs, visitors: dict[str, Any]) -> None:
    coordinator = programs.start_coordinator()
    found = strangers.knock([coordinator.address], visitors)
    assert found["served"] == [f"plaintext at {coordinator.address}"]
    assert len(found["unknown"]) == len(strangers.KNOWN)


def test_a_server_that_takes_every_certificate_is_found_out(
        programs: Programs, own: pathlib.Path, visitors: dict[str, Any]) -> None:
    # Certificates of its own, and no authority for those of others.
    coordinator = programs.start_coordinator(*flags(own, "coordinator")[2:])
    found = strangers.knock([coordinator.address], visitors)
    assert (found["refused"], found["unknown"]) == (1, [])
