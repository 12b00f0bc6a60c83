"""What a class of tests that run programs begins with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

import pytest
from processes import Cluster, Finished, Process, Programs, Server

_Entered = TypeVar("_Entered")


class ProcessCase:
    """Each test has a directory of its own; its programs, and what it entered, end with it."""

    @pytest.fixture(autouse=True)
    def _programs(self, programs: Programs) -> Iterator[None]:
        self.programs, self.directory = programs, programs.directory
        with contextlib.ExitStack() as self._entered:
            self.set_up()
            yield

    def set_up(self) -> None:
        """What all tests of the class need."""

    def enter(self, context: contextlib.AbstractContextManager[_Entered]) -> _Entered:
        """Enters a context until the end of the test."""
        return self._entered.enter_context(context)

    def start(self, program: str, *arguments: object,
              environment: dict[str, str] | None = None) -> Process:
        return self.programs.start(program, *arguments, environment=environment)

    def run_dslide(self, *arguments: object, within: float | None = None) -> Finished:
        return self.programs.run_dslide(*arguments, within=within)

    def start_coordinator(self, *arguments: object, shards: int = 1) -> Server:
        return self.programs.start_coordinator(*arguments, shards=shards)

    def start_shard(self, coordinator: Server, *arguments: object) -> Server:
        return self.programs.start_shard(coordinator, *arguments)

    def start_cluster(self, *arguments: object, shards: int) -> Cluster:
        return self.programs.start_cluster(*arguments, shards=shards)
