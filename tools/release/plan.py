"""What is released: version, sources, names in the registry, and where the files go."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
_REGISTRY = re.compile(r"(?P<host>[a-zA-Z0-9.-]+(:\d+)?)/(?P<prefix>[a-z0-9]+([._/-][a-z0-9]+)*)")
_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?")


class ReleaseError(Exception):
    """Ends a release; the message says what is wrong and what helps."""


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments)}: {done.stderr.strip()}: release from a "
                           "checkout of the repository")
    return done.stdout.strip()


@dataclasses.dataclass(frozen=True)
class Registry:
    """HOST[:PORT]/PREFIX, below which images and chart are."""

    host: str
    prefix: str

    @staticmethod
    def parse(text: str) -> Registry:
        found = _REGISTRY.fullmatch(text)
        if not found:
            raise ReleaseError(f"--registry {text}: want HOST[:PORT]/PREFIX in small letters, as "
                               "registry.example.com/ml")
        return Registry(found["host"], found["prefix"])

    @property
    def is_plain(self) -> bool:
        """Whether it is spoken to without TLS: on this machine alone."""
        return bool(_LOOPBACK.fullmatch(self.host))

    @property
    def charts(self) -> str:
        return f"oci://{self.host}/{self.prefix}/charts"

    def repository(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def reference(self, name: str, what: str) -> str:
        """what: a tag, or a digest `sha256:...`."""
        separator = "@" if what.startswith("sha256:") else ":"
        return f"{self.host}/{self.repository(name)}{separator}{what}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """created: the time of the commit, so that the same commit makes the same files."""

    version: str
    revision: str
    changed: tuple[str, ...]
    created: datetime.datetime
    registry: Registry
    output: pathlib.Path

    @staticmethod
    def of_checkout(registry: Registry, output: pathlib.Path) -> Plan:
        return Plan(
            version=(ROOT / "VERSION").read_text(encoding="ascii").strip(),
            revision=_git("rev-parse", "HEAD"),
            changed=tuple(_git("status", "--porcelain").splitlines()),
            created=datetime.datetime.fromtimestamp(
                int(_git("show", "-s", "--format=%ct", "HEAD")), datetime.UTC),
            registry=registry, output=output)

    @property
    def time(self) -> str:
        return self.created.strftime("%Y-%m-%dT%H:%M:%SZ")
