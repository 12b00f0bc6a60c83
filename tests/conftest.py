"""What every test in Python has: the folder of the programs, and their end with the test."""

from __future__ import annotations

import pathlib
from collections.abc import Generator, Iterator

import processes
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bin-dir", type=pathlib.Path, help="folder of the programs")
    parser.addoption("--update", action="store_true",
                     help="write golden files and generated pages anew")


def pytest_configure(config: pytest.Config) -> None:
    bin_dir = config.getoption("--bin-dir")
    if bin_dir is not None:
        processes.use_bin_dir(bin_dir)


@pytest.fixture(scope="session")
def bin_dir(pytestconfig: pytest.Config) -> pathlib.Path:
    """The folder of the programs; skips what needs them where none is named."""
    if pytestconfig.getoption("--bin-dir") is None:
        pytest.skip("no programs: --bin-dir names their folder")
    return processes.bin_dir()


@pytest.fixture
def update(pytestconfig: pytest.Config) -> bool:
    """Whether a golden file or a generated page is to be written anew."""
    return bool(pytestconfig.getoption("--update"))


@pytest.fixture
def programs(tmp_path: pathlib.Path) -> Iterator[processes.Programs]:
    """Starts programs below `tmp_path`; none of them outlives the test."""
    with processes.Programs(tmp_path) as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    directory = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and directory is not None:
        report.sections.append(("files", f"kept in {directory}"))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    assert terminal is not None
    if session.exitstatus == pytest.ExitCode.OK and not terminal.stats.get("passed"):
        session.exitstatus = processes.SKIPPED
