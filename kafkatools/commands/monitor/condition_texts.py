"""Parse the conditions of --fail-if and --alert of kt monitor. `tools/monitor/conditions.py` evaluates them.

    CONDITION: unwell | MEASURE OP NUMBER[UNIT] [on KEY=VALUE[,KEY=VALUE]...]
    ALERT:     CONDITION with [for DURATION] before or after `on`

A MEASURE may be written with _ or -. UNIT is a unit of time for `lag` and `lag-seconds`, % for `disk-used`. A VALUE
with spaces or commas has double quotes around it.
"""

from __future__ import annotations

import re
from typing import NoReturn

from kafkatools.exit_status import UsageError
from kafkatools.options.quantities import duration_ms
from kafkatools.tools.monitor.alerts.alert import Alert
from kafkatools.tools.monitor.conditions import UNWELL, Condition, Selector
from kafkatools.tools.monitor.measures import MEASURES

_MEASURE = re.compile(r"[A-Za-z][A-Za-z_-]*", re.ASCII)
_OPERATOR = re.compile(r">=|<=|==|!=|>|<|=")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_MOST_DIGITS = 18
_UNIT = re.compile(r"[A-Za-z%]+", re.ASCII)
_DURATION = re.compile(r"[0-9][0-9.a-z]*", re.ASCII)
_WORD = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE = re.compile(r'"([^"]+)"|([^\s,"]+)')
_SPACES = re.compile(r"\s*")
_KEYS = ("group", "topic", "partition", "broker")
_NUMBERED = ("partition", "broker")
_TIMES = ("lag", "lag-seconds")


def parse_condition(text: str) -> Condition:
    """Parse a condition of --fail-if, such as `lag>5m`, `brokers<3` or `unwell`. Raises UsageError with the position
    of the mistake."""
    scanner = _Scanner("--fail-if", text)
    condition = scanner.comparison()
    while not scanner.is_at_end:
        keyword, at = scanner.word("'on', or the end")
        if keyword == "for":
            scanner.fail("'for' belongs to --alert, since --fail-if decides at once", at)
        if keyword != "on" or condition.on:
            scanner.fail("expected 'on', or the end", at)
        condition = condition._replace(on=scanner.selectors(condition.measure))
    return condition


def parse_alert(text: str) -> Alert:
    """Parse an --alert, such as `lag_seconds>300 for 5m on group=payments`. Raises UsageError with the position of the
    mistake."""
    scanner = _Scanner("--alert", text)
    condition, hold_ms = scanner.comparison(), None
    while not scanner.is_at_end:
        free = [f"'{word}'" for word, is_free in (("for", hold_ms is None), ("on", not condition.on)) if is_free]
        expected = f"{', '.join(free)}, or the end" if free else "the end"
        keyword, at = scanner.word(expected)
        if keyword == "for" and hold_ms is None:
            hold_ms = scanner.duration()
        elif keyword == "on" and not condition.on:
            condition = condition._replace(on=scanner.selectors(condition.measure))
        else:
            scanner.fail(f"expected {expected}", at)
    return Alert(condition, hold_ms or 0)


class _Scanner:
    """Reads the tokens of one condition. Its errors name the position as a character from 1."""

    def __init__(self, option: str, text: str) -> None:
        self._option = option
        self._text = text
        self._at = 0
        self._skip_spaces()

    @property
    def is_at_end(self) -> bool:
        """Return whether nothing but spaces is left."""
        return self._at == len(self._text)

    def comparison(self) -> Condition:
        """Read `unwell` or `MEASURE OP NUMBER[UNIT]`."""
        start = self._at
        word = self._take(_MEASURE, "MEASURE OP NUMBER, such as under-replicated>0, lag>1000 or lag>5m, or unwell")[0]
        measure = word.replace("_", "-")
        if measure == UNWELL:
            if not self.is_at_end and _OPERATOR.match(self._text, self._at):
                self.fail(f"{UNWELL} takes no comparison", self._at)
            return Condition(self._text.strip(), UNWELL)
        if measure not in MEASURES:
            raise UsageError(
                f"Unknown measure '{word}' in {self._option} '{self._text}' at character {start + 1}; measures are "
                f"{', '.join(MEASURES)}, or {UNWELL} alone"
            )
        operator = self._take(_OPERATOR, f"one of > >= < <= = != after {word}")[0]
        at = self._at
        number = self._take(_NUMBER, "a number")[0]
        if len(number) > _MOST_DIGITS:
            self.fail(f"a number has at most {_MOST_DIGITS} digits", at)
        unit = _UNIT.match(self._text, self._at)
        if unit is None or unit[0] in ("for", "on"):
            unit_text = ""
        else:
            unit_text = unit[0]
            self._at = unit.end()
            self._skip_spaces()
        measure, amount = self._amount(measure, number, unit_text, at)
        return Condition(self._text.strip(), measure, operator, amount)

    def _amount(self, measure: str, number: str, unit: str, at: int) -> tuple[str, float]:
        """Return the measure and the number; `lag` with a unit of time is `lag-seconds`."""
        if not unit or (unit == "%" and MEASURES[measure].unit == "%"):
            if MEASURES[measure].unit == "%" and float(number) > 100:
                self.fail(f"{measure} is a percentage of at most 100", at)
            return measure, float(number) if "." in number else int(number)
        if measure not in _TIMES:
            is_percent = MEASURES[measure].unit == "%"
            form = "a number or a percentage, such as 90%" if is_percent else "a number without a unit"
            self.fail(f"{measure} takes {form}", at)
        time_ms = duration_ms(number + unit)
        if time_ms is None:
            self.fail(f"unknown unit '{unit}' after {number}; expected a number or a time with ms, s, m, h, d, w", at)
        return "lag-seconds", time_ms / 1000

    def duration(self) -> int:
        """Read a duration, such as `5m` or `1h30m`, and return it in ms."""
        at = self._at
        time_ms = duration_ms(self._take(_DURATION, "a duration after 'for', such as 5m or 1h30m")[0])
        if time_ms is None:
            self.fail("expected a duration after 'for', such as 30s, 5m or 1h30m", at)
        return time_ms

    def selectors(self, measure: str) -> tuple[Selector, ...]:
        """Read `KEY=VALUE,...` with the keys that the measure accepts."""
        keys = MEASURES[measure].selectors if measure in MEASURES else ()
        if not keys:
            self.fail(f"{measure} is of the whole cluster and takes no 'on'", self._at)
        found: list[Selector] = []
        while True:
            at = self._at
            key = self._take(_WORD, f"one of {', '.join(keys)} after 'on'")[0]
            if key not in keys:
                reason = f"{measure} accepts {', '.join(keys)}" if key in _KEYS else f"the keys are {', '.join(keys)}"
                self.fail(f"'{key}' cannot be selected: {reason}", at)
            if key in (selector.key for selector in found):
                self.fail(f"{key} is selected twice", at)
            self._take(re.compile("="), f"= after '{key}'")
            at = self._at
            quoted, plain = self._take(_VALUE, f'a name after {key}=, in "" if it has spaces or commas').groups()
            value = quoted or plain
            if key in _NUMBERED and not re.fullmatch(r"[0-9]{1,10}|\*", value, re.ASCII):
                self.fail(f"{key} takes a number, not '{value}'", at)
            found.append(Selector(key, value))
            if not self._text.startswith(",", self._at):
                return tuple(found)
            self._at += 1
            self._skip_spaces()

    def word(self, expected: str) -> tuple[str, int]:
        """Read a keyword and return it with its position."""
        at = self._at
        return self._take(_WORD, expected)[0], at

    def fail(self, reason: str, at: int) -> NoReturn:
        """Raise UsageError with the condition and the position `at`."""
        raise UsageError(f"Invalid condition '{self._text}' of {self._option} at character {at + 1}: {reason}")

    def _take(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            self.fail(f"expected {expected}", self._at)
        self._at = match.end()
        self._skip_spaces()
        return match

    def _skip_spaces(self) -> None:
        match = _SPACES.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at
