r"""Regular expressions for matching names in time linear in the length of the name, as in RE2.

Python's `re` backtracks, so a pattern such as `(a+)+b` can take exponential time. Here a pattern is a non-deterministic
automaton that reads a name once and tracks the set of possible states. Steps between these sets are cached. `re` parses
the pattern, so the syntax and its meaning are the same; `.`, `$` and `\s` treat line ends as RE2 does.

The pattern divides all characters into classes and treats the characters of one class alike. A step reads a class, so
the size of the cache does not depend on the alphabet of the names. A set of classes is an int with one bit per class.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

WORDS: Final = frozenset(string.ascii_letters + string.digits + "_")
# The most states of the automaton, and so the most work for one character of a name. RE2 bounds a program too.
MOST_STATES: Final = 1000
# A pattern of this length is parsed in at most about 20 ms.
MOST_CHARACTERS: Final = 4096
# The most states in all cached steps together, about 3 MB.
MOST_CACHED_STATES: Final = 50_000

Item = tuple[object, Any]  # an element of a parsed pattern: its operation, and an argument of that operation's kind
Ranges = tuple[tuple[int, int], ...]  # code points, first and last of each range; in order, without overlaps
_LAST: Final = 0x10FFFF
_DIGITS: Final[Ranges] = ((48, 57),)
_SPACES: Final[Ranges] = ((9, 10), (12, 13), (32, 32))
_WORD_RANGES: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_LINE_END: Final[Ranges] = ((10, 10),)
_CATEGORIES: Final = {
    constants.CATEGORY_DIGIT: (_DIGITS, False),
    constants.CATEGORY_NOT_DIGIT: (_DIGITS, True),
    constants.CATEGORY_SPACE: (_SPACES, False),
    constants.CATEGORY_NOT_SPACE: (_SPACES, True),
    constants.CATEGORY_WORD: (_WORD_RANGES, False),
    constants.CATEGORY_NOT_WORD: (_WORD_RANGES, True),
}
START, END, BOUNDARY, NO_BOUNDARY = "start", "end", "boundary", "no boundary"
LINE_START, LINE_END = "line start", "line end"


class TooComplex(Exception):
    """A pattern needs more than MOST_STATES states, is longer than MOST_CHARACTERS, or has an element that no automaton
    can express."""


class LinearPattern:
    """A regular expression compiled to an automaton. A state has either characters and the next state, or transitions
    that read no character."""

    def __init__(self, text: str, flags: int) -> None:
        """Compile a pattern with flags of `re`. Raises TooComplex, and re.error for an invalid pattern."""
        if len(text) > MOST_CHARACTERS:
            raise TooComplex
        self._characters: list[tuple[Ranges, int] | None] = []
        self._transitions: list[list[tuple[str | None, int]]] = []
        tree = parser.parse(text, flags)
        self._accepting = self._state()
        self._first = frozenset((self._sequence(tree, self._accepting, tree.state.flags),))
        self._bounds = _bounds(entry[0] for entry in self._characters if entry is not None)
        self._targets = self._classified()
        self._steps: dict[tuple[frozenset[int], str, int], frozenset[int]] = {}
        self._cached_states = 0

    def _classified(self) -> list[tuple[int, int] | None]:
        """For each state that reads a character: the bits of its character classes, and the next state."""
        class_bits: dict[Ranges, int] = {}
        targets: list[tuple[int, int] | None] = []
        for entry in self._characters:
            if entry is None:
                targets.append(None)
                continue
            ranges, target = entry
            if ranges not in class_bits:
                class_bits[ranges] = sum(
                    (2 << bisect_right(self._bounds, last)) - (1 << bisect_right(self._bounds, first))
                    for first, last in ranges
                )
            targets.append((class_bits[ranges], target))
        return targets

    def fullmatch(self, name: Iterable[str]) -> bool:
        """Return whether the pattern matches the whole name, which is a text or an iterable of its characters."""
        states, previous, steps, bounds = self._first, "", self._steps, self._bounds
        for character in name:
            kind = bisect_right(bounds, ord(character))
            following = steps.get((states, previous, kind))
            states = self._step(states, previous, character, kind) if following is None else following
            if not states:
                return False
            previous = _side(character)
        return self._accepting in self._closure(states, previous, "")

    def _step(self, states: frozenset[int], previous: str, character: str, kind: int) -> frozenset[int]:
        """The states of the automaton after it reads a character of class `kind`; the step is cached."""
        reached = self._closure(states, previous, _side(character))
        bit = 1 << kind
        transitions = (self._targets[state] for state in reached)
        following = frozenset(target[1] for target in transitions if target is not None and target[0] & bit)
        self._cached_states += len(following) + 1
        if self._cached_states > MOST_CACHED_STATES:
            self._steps.clear()
            self._cached_states = len(following) + 1
        self._steps[states, previous, kind] = following
        return following

    def _closure(self, states: frozenset[int], previous: str, following: str) -> frozenset[int]:
        """The states reachable without reading a character. `previous` and `following`: the kinds of the characters on
        both sides (see `_side`), empty at an end of the name."""
        conditions = _conditions(previous, following)
        reached, waiting = set(states), list(states)
        while waiting:
            for condition, target in self._transitions[waiting.pop()]:
                if target not in reached and (condition is None or condition in conditions):
                    reached.add(target)
                    waiting.append(target)
        return frozenset(reached)

    # -- building, from the end to the start: each part gets the state after it and returns its first state ----------
    def _state(self, *transitions: tuple[str | None, int]) -> int:
        if len(self._transitions) >= MOST_STATES:
            raise TooComplex
        self._characters.append(None)
        self._transitions.append(list(transitions))
        return len(self._transitions) - 1

    def _sequence(self, items: Iterable[Item], target: int, flags: int) -> int:
        for operation, argument in reversed(list(items)):
            target = self._item(operation, argument, target, flags)
        return target

    def _item(self, operation: object, argument: Any, target: int, flags: int) -> int:
        characters = _characters(operation, argument, flags)
        if characters is not None:
            state = self._state()
            self._characters[state] = characters, target
            return state
        if operation is constants.BRANCH:
            return self._state(*((None, self._sequence(branch, target, flags)) for branch in argument[1]))
        if operation is constants.SUBPATTERN:
            _, flags_on, flags_off, items = argument
            return self._sequence(items, target, (flags | flags_on) & ~flags_off)
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            least, most, repeated = argument
            return self._repeat(least, most, repeated, target, flags)
        if operation is constants.AT:
            return self._state((_condition(argument, flags), target))
        raise TooComplex

    def _repeat(self, least: int, most: int, items: Sequence[Item], target: int, flags: int) -> int:
        if most is constants.MAXREPEAT:
            loop = self._state((None, target))
            self._transitions[loop].append((None, self._sequence(items, loop, flags)))
            target = loop
        else:
            behind = target
            for _ in range(most - least):
                target = self._state((None, behind), (None, self._sequence(items, target, flags)))
        for _ in range(least):
            first = self._sequence(items, target, flags)
            if first == target:  # the repeated element is empty
                break
            target = first
        return target


def _side(character: str) -> str:
    """The kind of a character next to a position: `w` for a word character, a line feed, `-` for any other."""
    return "w" if character in WORDS else "\n" if character == "\n" else "-"


def _conditions(previous: str, following: str) -> frozenset[str]:
    conditions = {BOUNDARY if (previous == "w") != (following == "w") else NO_BOUNDARY}
    if not previous:
        conditions.add(START)
    if not following:
        conditions.add(END)
    if previous in ("", "\n"):
        conditions.add(LINE_START)
    if following in ("", "\n"):
        conditions.add(LINE_END)
    return frozenset(conditions)


def _condition(at: object, flags: int) -> str:
    by_line = bool(flags & constants.SRE_FLAG_MULTILINE)
    if at in (constants.AT_BEGINNING, constants.AT_BEGINNING_STRING):
        return LINE_START if by_line and at is constants.AT_BEGINNING else START
    if at in (constants.AT_END, constants.AT_END_STRING):
        return LINE_END if by_line and at is constants.AT_END else END
    return BOUNDARY if at is constants.AT_BOUNDARY else NO_BOUNDARY


def _bounds(sets: Iterable[Ranges]) -> list[int]:
    """The sorted code points at which a character class begins. Characters between two of them are in the same sets."""
    bounds = {bound for ranges in sets for first, last in ranges for bound in (first, last + 1)}
    return sorted(bounds.union(bound for first, last in (*_WORD_RANGES, *_LINE_END) for bound in (first, last + 1)))


def _characters(operation: object, argument: Any, flags: int) -> Ranges | None:
    """The code point ranges that an element of a pattern matches; None for an element that is not one character."""
    ignore_case = bool(flags & constants.SRE_FLAG_IGNORECASE)
    if operation is constants.ANY:
        return ((0, _LAST),) if flags & constants.SRE_FLAG_DOTALL else _others(_LINE_END)
    if operation is constants.LITERAL:
        return _merged(_cased(argument, argument) if ignore_case else [(argument, argument)])
    if operation is constants.NOT_LITERAL:
        return _others(_merged(_cased(argument, argument) if ignore_case else [(argument, argument)]))
    if operation is not constants.IN:
        return None
    selected: list[tuple[int, int]] = []
    for kind, value in argument:
        if kind is constants.CATEGORY:
            ranges, is_negated = _CATEGORIES[value]
            selected += _others(ranges) if is_negated else ranges
        elif kind is not constants.NEGATE:
            first, last = value if kind is constants.RANGE else (value, value)
            selected += _cased(first, last) if ignore_case else [(first, last)]
    merged = _merged(selected)
    return _others(merged) if argument[0][0] is constants.NEGATE else merged


def _cased(first: int, last: int) -> list[tuple[int, int]]:
    """A range of code points plus the other case of its letters; for more than one character, ASCII letters only."""
    ranges = [(first, last)]
    if first == last:
        ranges += [(ord(other), ord(other)) for other in (chr(first).lower(), chr(first).upper()) if len(other) == 1]
    for letters, other in ((65, 97), (97, 65)):
        low, high = max(first, letters), min(last, letters + 25)
        if low <= high:
            ranges.append((low - letters + other, high - letters + other))
    return ranges


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort code point ranges and merge those that overlap or touch."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)


def _others(ranges: Ranges) -> Ranges:
    complement, start = [], 0
    for first, last in ranges:
        if start < first:
            complement.append((start, first - 1))
        start = last + 1
    return (*complement, (start, _LAST)) if start <= _LAST else tuple(complement)
