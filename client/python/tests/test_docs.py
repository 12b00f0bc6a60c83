"""Every snippet of docs/client-python.md runs, in order, as it stands there."""

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

PAGE = ROOT / "docs" / "client-python.md"


def test_the_snippets_of_the_page(bin_dir: pathlib.Path, small_data: pathlib.Path,
                                  cluster: dslide.LocalCluster, tmp_path: pathlib.Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(snippets) >= 6
    for name in ("train.txt", "test.txt"):
        shutil.copy(small_data / name, tmp_path)
    (tmp_path / "spec.json").write_text(json.dumps(SMALL_SPEC))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in snippets:
        # The page's cluster is this one.
        exec(compile(snippet.replace("127.0.0.1:7000", cluster.address), str(PAGE), "exec"), names)
    assert names["precision"].at_1 > 0
    assert names["rows"].shape == (3, 8)
    assert names["best"].ids.shape == (3, 3)
    cluster.create_model({"name": "table", "tables": [
        {"name": "labels", "role": "head", "rows": 1000, "dim": 8}]})
    assert asyncio.run(names["read"](cluster.address)).shape == (3, 8)
