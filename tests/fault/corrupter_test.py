"""Each kind of damage changes bytes, where it says, and is repeated by its seed."""

from __future__ import annotations

import pathlib

import corrupter
import pytest
from corrupter import KINDS, NothingToDamage, corrupt

FILES = {"latest/000008.sst": bytes(range(256)) * 40, "latest/000009.sst": b"rows" * 3000,
         "latest/MANIFEST-000005": b"manifest" * 20, "latest/CURRENT": b"MANIFEST-000005\n",
         "latest/000004.log": bytes(5000) + b"log", "latest/OPTIONS-000007": b"options",
         "meta.json": b"{}\n", "empty": b""}


def make(directory: pathlib.Path) -> pathlib.Path:
    for name, content in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def content(directory: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes()
            for path in corrupter.files_of(directory)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_changes_what_it_names(kind: str, tmp_path: pathlib.Path) -> None:
    for seed in range(20):
        directory = make(tmp_path / str(seed))
        record = corrupt(directory, seed, [kind])
        after = content(directory)
        named = {record["file"]}
        if "with" in record:
            named.add(str(pathlib.Path(record["with"]).relative_to(directory)))
        assert {name for name in FILES if after.get(name) != FILES[name]} == named, record
        whole, now = FILES[record["file"]], after.get(record["file"])
        assert (now is None) == (kind == "missing")
        if now is not None and kind != "swap":
            assert now[:record["offset"]] == whole[:record["offset"]]
        if kind == "flip":
            assert now is not None
            assert now[record["offset"]] ^ whole[record["offset"]] == 1 << record["bit"]


def test_swap_takes_files_of_another_directory(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "000003.sst").write_bytes(b"older rows")
    directory = make(tmp_path / "victim")
    record = corrupt(directory, 1, ["swap"], other=other)
    assert (record["file_kind"], (directory / record["file"]).read_bytes()) == (
        "sst", b"older rows")


def test_equal_seeds_do_equal_damage(tmp_path: pathlib.Path) -> None:
    def damaged(name: str, seed: int) -> dict[str, bytes]:
        directory = make(tmp_path / name)
        for number in range(5):
            corrupt(directory, f"{seed}/{number}")
        return content(directory)

    assert damaged("a", 11) == damaged("b", 11) != damaged("c", 12)


def test_the_other_name_of_a_hard_link_stays_whole(tmp_path: pathlib.Path) -> None:
    directory = make(tmp_path / "victim")
    for name in FILES:
        (tmp_path / name.replace("/", "-")).hardlink_to(directory / name)
    for number in range(20):
        corrupt(directory, number)
    for name, whole in FILES.items():
        assert (tmp_path / name.replace("/", "-")).read_bytes() == whole


def test_nothing_to_damage_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NothingToDamage, match="identity"):
        corrupt(make(tmp_path / "victim"), 1, file_kinds=["identity"])
