"""Regular expressions over topic names in time linear in the name, as RE2 does it.

Python's `re` backtracks, so a pattern such as `(a+)+b` takes exponential time. Here a pattern is a non-deterministic
automaton: a name is read once, with the set of all states it may be in, and steps between these sets are cached. `re`
parses the pattern, so the syntax and its meaning are the same. Only the characters that a topic name may have are
distinguished.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
WORDS: Final = frozenset(string.ascii_letters + string.digits + "_")
# The most steps for one character of a name; RE2 bounds the size of a program too.
MOST_STATES: Final = 1000
MOST_STEPS: Final = 10_000
_CATEGORIES: Final = {
    constants.CATEGORY_DIGIT: frozenset(string.digits),
    constants.CATEGORY_NOT_DIGIT: ALPHABET - frozenset(string.digits),
    constants.CATEGORY_SPACE: frozenset[str](),
    constants.CATEGORY_NOT_SPACE: ALPHABET,
    constants.CATEGORY_WORD: WORDS,
    constants.CATEGORY_NOT_WORD: ALPHABET - WORDS,
}
_AT_START = (constants.AT_BEGINNING, constants.AT_BEGINNING_STRING)
_AT_END = (constants.AT_END, constants.AT_END_STRING)
START, END, BOUNDARY, NO_BOUNDARY = "start", "end", "boundary", "no boundary"


class TooComplex(Exception):
    """A pattern with more states than MOST_STATES, or with an element that no automaton can express."""


class LinearPattern:
    """A compiled pattern. A state has either characters and the next state, or transitions that read no character."""

    def __init__(self, text: str, flags: int) -> None:
        """Raises TooComplex, and re.error for an invalid pattern."""
        self._takes: list[tuple[frozenset[str], int] | None] = []
        self._ways: list[list[tuple[str | None, int]]] = []
        tree = parser.parse(text, flags)
        self._accepting = self._state()
        self._first = frozenset((self._sequence(tree, self._accepting, tree.state.flags),))
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def fullmatch(self, name: str) -> bool:
        """Whether the pattern matches the whole name."""
        states, previous, known = self._first, "", self._steps
        for character in name:
            following = known.get((states, previous, character))
            states = self._step(states, previous, character) if following is None else following
            if not states:
                return False
            previous = "w" if character in WORDS else "-"
        return self._accepting in self._closure(states, previous, "")

    def _step(self, states: frozenset[int], previous: str, character: str) -> frozenset[int]:
        """The states after a character."""
        reached = self._closure(states, previous, "w" if character in WORDS else "-")
        found = (self._takes[state] for state in reached)
        following = frozenset(take[1] for take in found if take is not None and character in take[0])
        if len(self._steps) >= MOST_STEPS:
            self._steps.clear()
        self._steps[states, previous, character] = following
        return following

    def _closure(self, states: frozenset[int], previous: str, following: str) -> frozenset[int]:
        """The states reached without reading a character. `previous` and `following`: the kinds of characters on both
        sides, empty at an end of the name."""
        holds = _conditions(previous, following)
        found, waiting = set(states), list(states)
        while waiting:
            for condition, target in self._ways[waiting.pop()]:
                if target not in found and (condition is None or condition in holds):
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    # -- building, from the end to the start: each part gets the state after it and returns its first state ----------
    def _state(self, *ways: tuple[str | None, int]) -> int:
        if len(self._ways) >= MOST_STATES:
            raise TooComplex
        self._takes.append(None)
        self._ways.append(list(ways))
        return len(self._ways) - 1

    def _sequence(self, items: Iterable[Any], target: int, flags: int) -> int:
        for operation, argument in reversed(list(items)):
            target = self._item(operation, argument, target, flags)
        return target

    def _item(self, operation: Any, argument: Any, target: int, flags: int) -> int:
        characters = _characters(operation, argument, ignore_case=bool(flags & constants.SRE_FLAG_IGNORECASE))
        if characters is not None:
            state = self._state()
            self._takes[state] = characters, target
            return state
        if operation is constants.BRANCH:
            return self._state(*((None, self._sequence(each, target, flags)) for each in argument[1]))
        if operation is constants.SUBPATTERN:
            _, added, removed, items = argument
            return self._sequence(items, target, (flags | added) & ~removed)
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            least, most, repeated = argument
            return self._repeat(least, most, repeated, target, flags)
        if operation is constants.AT:
            return self._state((_condition(argument), target))
        raise TooComplex

    def _repeat(self, least: int, most: Any, items: Sequence[Any], target: int, flags: int) -> int:
        if most is constants.MAXREPEAT:
            loop = self._state((None, target))
            self._ways[loop].append((None, self._sequence(items, loop, flags)))
            target = loop
        else:
            behind = target
            for _ in range(most - least):
                target = self._state((None, behind), (None, self._sequence(items, target, flags)))
        for _ in range(least):
            target = self._sequence(items, target, flags)
        return target


def _conditions(previous: str, following: str) -> frozenset[str]:
    found = {BOUNDARY if (previous == "w") != (following == "w") else NO_BOUNDARY}
    if not previous:
        found.add(START)
    if not following:
        found.add(END)
    return frozenset(found)


def _condition(at: Any) -> str:
    if at in _AT_START:
        return START
    if at in _AT_END:
        return END
    return BOUNDARY if at is constants.AT_BOUNDARY else NO_BOUNDARY


def _characters(operation: Any, argument: Any, *, ignore_case: bool) -> frozenset[str] | None:
    """The characters of a topic name that an element matches; None for an element that is not one character."""
    if operation is constants.ANY:
        return ALPHABET
    if operation is constants.LITERAL:
        return _cased({chr(argument)}, ignore_case)
    if operation is constants.NOT_LITERAL:
        return ALPHABET - _cased({chr(argument)}, ignore_case)
    if operation is not constants.IN:
        return None
    found: set[str] = set()
    for kind, value in argument:
        if kind is constants.LITERAL:
            found.add(chr(value))
        elif kind is constants.RANGE:
            found.update(each for each in map(chr, range(value[0], min(value[1], 127) + 1)))
        elif kind is constants.CATEGORY:
            found |= _CATEGORIES[value]
    taken = _cased(found, ignore_case)
    return ALPHABET - taken if argument[0][0] is constants.NEGATE else taken


def _cased(characters: set[str], ignore_case: bool) -> frozenset[str]:
    if ignore_case:
        characters = characters | {each.lower() for each in characters} | {each.upper() for each in characters}
    return ALPHABET & characters
