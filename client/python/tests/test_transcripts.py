"""The judge of tests/clients/transcripts.json says of wrong step streams what is wrong."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from conftest import ROOT
from wrong_increments import MISTAKES

sys.path.insert(0, str(ROOT / "tools" / "clients"))
import transcripts  # noqa: E402

HERE = pathlib.Path(__file__).parent
TOLD = [
    (
        "new_number_after_a_break",
        "step-answer-lost",
        "step {'sequence': 2, 'first_incomplete': 1, 'generation': 7, 'update': 0}, "
        "expected step {'update': 0, 'sequence': 1, 'generation': 7}",
    ),
    (
        "newest_first_after_a_break",
        "steps-broken-in-the-middle",
        "'update': 2}, expected step {'optional': True, 'update': 0, 'sequence': 1",
    ),
    ("changed_after_a_break", "step-request-lost", "'update': '1, not as it was sent before'}"),
    (
        "any_answer_is_taken",
        "step-answer-twice",
        '"value": 100.0}, expected the value 101: it took another operation\'s answer',
    ),
    ("any_answer_is_taken", "step-answer-of-the-future", '"value": 900.0}, expected the value 100'),
    ("any_answer_is_taken", "steps-out-of-order", '"value": 101.0}, expected the value 100'),
    (
        "any_greeting_is_believed",
        "step-lost-updates",
        "step {'sequence': 2, 'first_incomplete': 2, 'generation': 8, 'update': 1}, "
        "expected nothing more",
    ),
    ("old_generation", "step-restarted-shard", "'generation': 7, 'update': 1}, expected step"),
    ("no_second_greeting", "step-another-owner", "expected hello {'acknowledged': 1}"),
    ("no_second_greeting", "step-unknown-client", "expected hello {'acknowledged': 0}"),
    ("answers_are_forgotten", "step-forgotten-client", "hello {'acknowledged': 0}, expected"),
    ("refused_numbers_come_again", "step-refused-content", "step {'sequence': 2, "),
    (
        "gaps_are_errors",
        "steps-refused-in-front",
        '"outcome": "refused", "reason": "SEQUENCE_GAP", "value": 0}, expected applied',
    ),
    ("gaps_are_asked_about_for_ever", "step-gap-that-stays", "expected nothing more"),
    (
        "nothing_is_given_up",
        "steps-refused-in-front",
        "step {'sequence': 2, 'first_incomplete': 1, 'generation': 7, 'update': 1}, "
        "expected step {'update': 1, 'sequence': 2, 'first_incomplete': 2",
    ),
]


def transcript(name: str) -> Any:
    every = json.loads(transcripts.TRANSCRIPTS.read_text(encoding="utf-8"))
    return next(one for one in every if one["name"] == name)


def program(*command: str | pathlib.Path) -> Any:
    return {"increments": [sys.executable, *map(str, command)], "environment": {}}


@pytest.mark.parametrize(("mistake", "name", "said"), TOLD)
def test_a_wrong_stream_is_told_of(mistake: str, name: str, said: str) -> None:
    # Some wrong clients ask until their time is over.
    judged = transcript(name) | {"timeout_seconds": 10}
    wrong = transcripts.differences(program(HERE / "wrong_increments.py", mistake), judged)
    assert any(said in text for text in wrong), wrong


def test_every_mistake_is_told_of() -> None:
    assert {mistake for mistake, _, _ in TOLD} == set(MISTAKES)


def test_the_right_one_is_not() -> None:
    assert transcripts.differences(program(HERE / "increments.py"), transcript("step-busy")) == []
