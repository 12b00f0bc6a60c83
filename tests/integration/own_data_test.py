"""Files of one's own: from CSV or JSON lines to predictions by name, and what these leave out."""

from __future__ import annotations

import csv
import json
import pathlib
from typing import Any

from process_case import ProcessCase
from processes import Finished, assert_ended

OK, USAGE = 0, 2
# Subject -> the words by which it is known; capitals, marks and other alphabets on purpose.
WORDS = {"Geography; rivers": ["Flüsse", "RIVER", "東京"], "C#": ["compiler", "Straße", "String"],
         "cooking": ["Salt", "naïve", "oven"]}


def rows() -> list[tuple[str, str]]:
    """Texts with line ends and quotes, and their subjects."""
    return [(f"{words[i % 3]}, \"{words[(i + 1) % 3]}\"\nnumber{i}", subject)
            for subject, words in WORDS.items() for i in range(40)]


class OwnDataTest(ProcessCase):
    def write_csv(self) -> pathlib.Path:
        path = self.directory / "own.csv"
        with path.open("w", newline="", encoding="utf-8-sig") as out:
            csv.writer(out, delimiter=";").writerows([("body", "subject"), *rows()])
        return path

    def train(self, *arguments: object) -> Any:
        trained = self.run_dslide("train", "-q", *arguments, "--threads", 1, "-o", "json")
        assert_ended(trained, OK)
        return json.loads(trained.stdout.splitlines()[-1])

    def first_labels(self, model: pathlib.Path, texts: list[str]) -> list[str]:
        source = self.directory / "texts.csv"
        with source.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("body",), *((text,) for text in texts)])
        finished = self.run_dslide("predict", "--model-dir", model, "--data", source,
                                   "--text-column", "body", "-k", 1, "-o", "json")
        assert_ended(finished, OK)
        return [json.loads(line)["predictions"][0]["name"] for line in finished.stdout.splitlines()]

    def importing(self, *arguments: object) -> Finished:
        return self.run_dslide("data", "import", *arguments, "-o", "json")

    def test_from_csv_to_a_prediction_of_a_text(self) -> None:
        columns = ("--text-column", "body", "--label-column", "subject", "--delimiter", ";")
        source, output = self.write_csv(), self.directory / "set"
        imported = self.importing("--csv", source, *columns, "--test-fraction", 0.25, "--output",
                                  output)
        assert_ended(imported, OK)
        report = json.loads(imported.stdout)
        assert report["rows"] == 120
        assert report["train"]["points"] + report["test"]["points"] == 120
        assert report["labels"] == 3
        kept = self.directory / "kept"
        assert self.train("--data", output / "train.txt", "--eval", output / "test.txt",
                          "--model-dir", kept)["p_at_1"] == 1.0
        direct = self.directory / "direct"
        self.train("--data", source, *columns, "--model-dir", direct)
        for model in (kept, direct):
            assert (model / "tokenizer.json").read_text() == (
                output / "tokenizer.json").read_text()
            texts = {text: subject for subject, words in WORDS.items() for word in words
                     for text in (word.upper(), f"»{word.lower()}«, unknown")}
            assert self.first_labels(model, list(texts)) == list(texts.values())
        asked = self.run_dslide("predict", "--model-dir", kept, "--text", "COMPILER", "-k", 1)
        assert "C#" in asked.stdout
        evaluated = self.run_dslide("eval", "--model-dir", direct, "--data", source, *columns,
                                    "-o", "json")
        assert_ended(evaluated, OK)
        assert json.loads(evaluated.stdout)["p_at_1"] == 1.0
        over_lines = [f"{words[0]},\n x" for words in WORDS.values()]
        assert self.first_labels(kept, over_lines) == list(WORDS)
        assert not list(self.directory.glob("dslide-import-*"))

    def test_json_lines_name_the_place_of_what_is_wrong(self) -> None:
        source, output = self.directory / "own.jsonl", self.directory / "set"
        lines = [json.dumps({"text": text, "labels": [subject]}) for text, subject in rows()]
        source.write_text("\n".join(lines))
        assert_ended(self.importing("--jsonl", source, "--output", output), OK)
        assert_ended(self.importing("--jsonl", source, "--output", output), USAGE)
        source.write_text("\n".join([*lines, "{\"text\": }"]))
        refused = self.importing("--jsonl", source, "--output", output, "--overwrite")
        assert_ended(refused, USAGE)
        assert f"{source}:121:10: found" in refused.stderr
        assert (output / "train.txt").exists()

    def test_what_a_user_has_already_is_left_out(self) -> None:
        """Users: items that they have -> items that they took next, where all names are items."""
        source, model = self.directory / "users.svm", self.directory / "model"
        source.write_text("".join(f"{(i + 1) % 8},{(i + 2) % 8} {i % 8}:1 {(i + 3) % 8}:1\n"
                                  for i in range(160)))
        output = self.directory / "set"
        assert_ended(self.importing("--svmlight", source, "--output", output), OK)
        self.train("--data", output / "train.txt", "--model-dir", model)
        names = {feature: line for feature, line in
                 enumerate((output / "labels.txt").read_text().splitlines())}
        pairs = self.directory / "pairs.txt"
        pairs.write_text("0 0\n\n0 1\n5 3\n")
        evaluated = self.run_dslide("eval", "--model-dir", model, "--data", output / "train.txt",
                                    "--exclude-inputs", "--filter", pairs, "-o", "json")
        assert_ended(evaluated, OK)
        assert json.loads(evaluated.stdout)["predictions_left_out"] > 0
        predicted = self.run_dslide("predict", "--model-dir", model, "--data",
                                    output / "train.txt", "-k", 8, "--exclude-inputs", "--filter",
                                    pairs, "-o", "json")
        assert_ended(predicted, OK)
        for point, line in enumerate(predicted.stdout.splitlines()):
            guesses = {guess["name"] for guess in json.loads(line)["predictions"]}
            assert not guesses & {str(point % 8), str((point + 3) % 8)}
            if point == 0:
                assert not guesses & {names[0], names[1]}
        pairs.write_text("0 0\n160 1\n")
        refused = self.run_dslide("eval", "--model-dir", model, "--data", output / "train.txt",
                                  "--filter", pairs)
        assert_ended(refused, USAGE)
        assert f"{pairs}:2:1: found \"160 1\"" in refused.stderr
