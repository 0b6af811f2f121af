"""Parse the conditions of --fail-if of kt consumer-groups. `tools/groups/conditions.py` evaluates them."""

from __future__ import annotations

import re

from kafkatools.exit_status import UsageError
from kafkatools.tools.groups.conditions import Condition

_GRAMMAR = re.compile(r"\s*([a-z]+)\s*(>=|<=|==|!=|>|<|=)\s*(\S+)\s*", re.ASCII)
_TIME = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EXPECTED = "expected MEASURE OP AMOUNT, such as lag>1000, lag>5m, behind>=1h, total>100000, members<2, state!=Stable"


def parse_condition(text: str, states: tuple[str, ...]) -> Condition:
    """Parse a condition such as `lag>5m`. `states` are the valid values of the measure `state`. Raises UsageError."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise UsageError(f"Invalid condition '{text}' of --fail-if: {_EXPECTED}")
    measure, comparison, amount = match.groups()
    if measure == "state":
        return _state_condition(text, comparison, amount, states)
    time = _TIME.fullmatch(amount)
    is_number = amount.isascii() and amount.isdigit()
    allowed = {"lag": is_number or time is not None, "behind": time is not None}
    if measure not in ("lag", "behind", "total", "members"):
        raise UsageError(f"--fail-if '{text}': unknown measure '{measure}'; {_EXPECTED}")
    if not allowed.get(measure, is_number):
        form = {"lag": "a number or a time such as 90s", "behind": "a time such as 90s"}.get(measure, "a number")
        raise UsageError(f"--fail-if '{text}': '{amount}' is not {form}")
    value = int(time[1]) * _UNIT_MS[time[2]] if time is not None else int(amount)
    return Condition(text.strip(), measure, comparison, value, time is not None)


def _state_condition(text: str, comparison: str, amount: str, states: tuple[str, ...]) -> Condition:
    states_by_name = {state.lower(): state for state in states}
    if amount.lower() not in states_by_name:
        raise UsageError(f"--fail-if '{text}': unknown state '{amount}'; states are {', '.join(states)}")
    if comparison not in ("=", "==", "!="):
        raise UsageError(f"--fail-if '{text}': a state takes the operators = and != only")
    return Condition(text.strip(), "state", comparison, states_by_name[amount.lower()], False)
