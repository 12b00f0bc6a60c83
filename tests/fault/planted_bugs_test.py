"""Every planted bug still fits the sources, and the tool tells caught bugs from missed ones.

Nothing is compiled here: ./run fault planted builds each bug and sees it caught.
"""

from __future__ import annotations

import pathlib
import re
from unittest import mock

import pytest
from planted_bugs import BROKEN, CAUGHT, HUNG, MISSED, ROOT, catch, mirror, run_cases
from planted_edits import PLANTS, Edit, EditError, Plant

# What the project has promised to be able to notice.
BUGS = {"ack-before-sync", "rename-before-fsync", "dedup-not-in-checkpoint",
        "dedup-without-generation", "manifest-before-shards", "per-tensor-snapshots",
        "clip-instead-of-reject", "retry-fsync", "point-in-time-recovery", "reuse-port",
        "no-fence-at-apply", "off-by-one-slice"}


class PlantsTest:
    def test_every_bug_is_planted_once(self) -> None:
        names = [plant.name for plant in PLANTS]
        assert len(names) == len(set(names))
        assert set(names) >= BUGS

    def test_every_edit_applies(self) -> None:
        for plant in PLANTS:
            texts: dict[str, str] = {}
            for edit in plant.edits:
                sound = (ROOT / edit.path).read_text(encoding="utf-8")
                texts[edit.path] = edit.apply(texts.get(edit.path, sound))
                assert texts[edit.path] != sound

    def test_every_catching_test_exists(self) -> None:
        lists = ROOT / "tests/unit/CMakeLists.txt"
        for plant in PLANTS:
            suite, case = plant.test.removeprefix("*/").removesuffix("/*").split(".")
            program = re.search(rf"dslide_test\({plant.target} .*?FOLDERS ([^)]*?)\s+DEPS",
                                lists.read_text(encoding="utf-8"))
            assert program is not None, plant.target
            sources = [source for folder in program.group(1).split()
                       for source in (lists.parent / folder).rglob("*_test.cc")]
            named = re.compile(rf"TEST(_F|_P)?\({suite},\s*{case}\)")
            assert any(named.search(source.read_text(encoding="utf-8")) for source in sources), (
                plant.test)

    def test_the_docs_list_what_is_planted(self) -> None:
        page = (ROOT / "docs/contribute/reliability-testing.md").read_text(encoding="utf-8")
        for plant in PLANTS:
            assert f"| `{plant.name}` | {plant.bug} | `{plant.test}` |" in page


class EditTest:
    def test_white_space_does_not_matter_and_the_rest_does(self) -> None:
        edit = Edit("f.cc", "if (a  <b) return f( c );", "bug();")
        assert edit.apply("x;\n if (a < b)\n   return f(c);\ny;") == "x;\n bug();\ny;"
        for text in ("if (a > b) return f(c);", "", "if (a < bb) return f(c);"):
            with pytest.raises(EditError, match="f.cc: this occurs 0 times"):
                edit.apply(text)
        with pytest.raises(EditError, match="occurs 2 times"):
            Edit("f.cc", "a;", "b;").apply("a; a;")


class ToolTest:
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: pathlib.Path) -> None:
        self.root = tmp_path

    @pytest.mark.parametrize(("script", "ran"), [
        ("echo '{\"tests\": 1, \"failures\": 0, \"errors\": 0}' >$report", (1, 0)),
        ("echo '{\"tests\": 3, \"failures\": 2, \"errors\": 0}' >$report; exit 1", (3, 2)),
        ("kill -SEGV $$", (1, 1)), ("exec sleep 60", None)])
    def test_counts_come_from_the_report(self, script: str, ran: tuple[int, int] | None) -> None:
        binary = self.root / "binary"
        binary.write_text(f"#!/bin/sh\nreport=${{2#*json:}}\n{script}\n", encoding="ascii")
        binary.chmod(0o755)
        found = run_cases(binary, "Suite.Case", self.root / "report.json", 0.2 if not ran else 30)
        assert (found[:2] if found else None) == ran

    def test_verdicts(self) -> None:
        (self.root / "f.cc").write_text("good();", encoding="ascii")
        good = Plant("p", "b", (Edit("f.cc", "good();", "bad();"),), "t", "S.C")
        stale = Plant("p", "b", (Edit("f.cc", "gone();", "bad();"),), "t", "S.C")
        for plant, refused, ran, verdict in (
                (good, None, (1, 1, "x.cc:3: Failure\nExpected: a"), CAUGHT),
                (good, None, (1, 0, ""), MISSED), (good, None, None, HUNG),
                (good, None, (0, 0, ""), BROKEN), (good, "error: no", (1, 1, ""), BROKEN),
                (stale, None, (1, 1, ""), BROKEN)):
            workshop = mock.Mock(tree=self.root)
            workshop.build.return_value = refused
            workshop.test.return_value = ran
            found = catch(workshop, plant)
            assert found.verdict == verdict, found
            assert (self.root / "f.cc").read_text(encoding="ascii") == "good();"

    def test_the_copy_follows_the_sources_and_touches_nothing_else(self) -> None:
        source, copy = self.root / "source", self.root / "copy"
        for path, text in (("core/a.cc", "a"), ("core/gone.cc", "g"), ("build/o", "o"),
                           ("core/__pycache__/p.pyc", "p"), ("CMakeLists.txt", "c")):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text, encoding="ascii")
        mirror(source, copy)
        before = (copy / "core/a.cc").stat().st_mtime_ns
        (copy / "build").mkdir()
        (source / "core/gone.cc").unlink()
        (source / "CMakeLists.txt").write_text("new", encoding="ascii")
        mirror(source, copy)
        assert (copy / "core/a.cc").stat().st_mtime_ns == before
        assert (copy / "CMakeLists.txt").read_text(encoding="ascii") == "new"
        left = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
        assert left == ["CMakeLists.txt", "core/a.cc"]
        assert (copy / "build").is_dir()
