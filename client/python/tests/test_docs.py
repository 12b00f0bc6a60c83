"""Every snippet of the pages and of the package's README runs as it stands there."""

from __future__ import annotations

import asyncio
import json
import pathlib
import re
import shutil
from typing import Any

import pytest
from conftest import ROOT, SMALL_SPEC

import dslide


def _snippets(path: pathlib.Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)


def test_the_page(
    bin_dir: pathlib.Path,
    small_data: pathlib.Path,
    cluster: dslide.LocalCluster,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = ROOT / "docs" / "start" / "client-python.md"
    snippets = [snippet for snippet in _snippets(page) if "torch" not in snippet]
    assert len(snippets) >= 9
    for name in ("train.txt", "test.txt"):
        shutil.copy(small_data / name, tmp_path)
    (tmp_path / "spec.json").write_text(json.dumps(SMALL_SPEC))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in snippets:
        # The page's cluster is this one.
        exec(compile(snippet.replace("127.0.0.1:7000", cluster.address), str(page), "exec"), names)
    assert names["precision"].at_1 > 0
    assert names["labels"].shape == (500, 5)
    assert names["rows"].shape == (3, 8)
    assert names["best"].ids.shape == (3, 3)
    cluster.create_model(
        {"name": "table", "tables": [{"name": "labels", "role": "head", "rows": 1000, "dim": 8}]}
    )
    assert asyncio.run(names["read"](cluster.address)).shape == (3, 8)


def test_the_page_for_pytorch(
    bin_dir: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: ./run clients --with-torch")
    page = ROOT / "docs" / "start" / "client-python.md"
    snippets = [snippet for snippet in _snippets(page) if "torch" in snippet]
    assert snippets
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"dslide": dslide}
    for snippet in snippets:
        exec(compile(snippet, str(page), "exec"), names)
    assert names["ids"].shape == (32, 5)
    assert (tmp_path / "head.pt").exists()


def test_the_first_pages(
    bin_dir: pathlib.Path,
    small_data: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With small data and a small spec at the places that they name."""
    places = {
        "data/debian-packages/train.txt": "train.txt",
        "data/debian-packages/test.txt": "test.txt",
        "train.txt": "train.txt",
        "test.txt": "test.txt",
    }
    for place, name in places.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(small_data / name, tmp_path / place)
    for place in ("docs/models/debian-packages.json", "spec.json"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(json.dumps(SMALL_SPEC))
    monkeypatch.chdir(tmp_path)
    for name in ("docs/start/first-training.md", "client/python/README.md"):
        path = ROOT / name
        snippets = _snippets(path)
        assert snippets
        for snippet in snippets:
            exec(compile(snippet, str(path), "exec"), {})
