"""increments.py as a client that makes one mistake with its step stream.

python wrong_increments.py MISTAKE COORDINATOR FIRST_ROW TIMEOUT_SECONDS
"""

from __future__ import annotations

import sys
from typing import Any

import increments

from dslide import _stream
from dslide._stream import ShardStream
from dslide.errors import InvalidArgumentError
from dslide.v1 import shard_pb2

_hello, _mend, _receive, _resend, _send = (
    ShardStream._hello,
    ShardStream._mend,
    ShardStream.receive,
    ShardStream._resend,
    ShardStream.send,
)
_next_answer, _change = ShardStream._next_answer, ShardStream._change_envelope
_take = ShardStream._take


def new_number_after_a_break(self: Any, deadline: float) -> None:
    for sent in self._unanswered:
        _change(sent, sequence=self._next_sequence)
        self._next_sequence += 1
    _mend(self, deadline)


def newest_first_after_a_break(self: Any, deadline: float) -> None:
    self._unanswered.reverse()
    _mend(self, deadline)


def changed_after_a_break(self: Any, deadline: float) -> None:
    for sent in self._unanswered:
        sent.request.step += 1
    _mend(self, deadline)


def any_answer_is_taken(self: Any, deadline: float) -> Any:
    answer = _next_answer(self, deadline)
    if isinstance(answer, shard_pb2.StepResponse):
        answer.sequence = self._unanswered[0].request.envelope.sequence
    return answer


def any_greeting_is_believed(*_: Any) -> None:
    pass


def old_generation(self: Any) -> None:
    before = self._generation
    _hello(self)
    self._generation = before or self._generation
    for sent in self._unanswered:
        _change(sent, generation=self._generation)


def no_second_greeting(self: Any) -> None:
    self.greetings = getattr(self, "greetings", 0) + 1
    if self.greetings != 2:
        _hello(self)


def answers_are_forgotten(self: Any, answer: Any) -> Any:
    taken = _take(self, answer)
    self._confirmed = 0
    return taken


def refused_numbers_come_again(self: Any) -> Any:
    try:
        return _receive(self)
    except InvalidArgumentError:
        self._next_sequence -= 1
        raise


def gaps_are_errors(self: Any, *args: Any, **operation: Any) -> None:
    _send(self, *args, **operation)
    self._unanswered[-1].held_before = True


def gaps_are_asked_about_for_ever(self: Any) -> None:
    for sent in self._unanswered:
        sent.held_before = False
    _resend(self)


def nothing_is_given_up(sent: Any, **fields: int) -> None:
    _change(sent, **{name: at for name, at in fields.items() if name != "first_incomplete"})


MISTAKES = {
    "new_number_after_a_break": (ShardStream, "_mend", new_number_after_a_break),
    "newest_first_after_a_break": (ShardStream, "_mend", newest_first_after_a_break),
    "changed_after_a_break": (ShardStream, "_mend", changed_after_a_break),
    "any_answer_is_taken": (ShardStream, "_next_answer", any_answer_is_taken),
    "any_greeting_is_believed": (_stream, "check_greeting", any_greeting_is_believed),
    "old_generation": (ShardStream, "_hello", old_generation),
    "no_second_greeting": (ShardStream, "_hello", no_second_greeting),
    "answers_are_forgotten": (ShardStream, "_take", answers_are_forgotten),
    "refused_numbers_come_again": (ShardStream, "receive", refused_numbers_come_again),
    "gaps_are_errors": (ShardStream, "send", gaps_are_errors),
    "gaps_are_asked_about_for_ever": (ShardStream, "_resend", gaps_are_asked_about_for_ever),
    "nothing_is_given_up": (ShardStream, "_change_envelope", staticmethod(nothing_is_given_up)),
}


if __name__ == "__main__":
    place, name, wrong = MISTAKES[sys.argv.pop(1)]
    setattr(place, name, wrong)
    increments.main()
