"""Rows as a table on a terminal."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkatools.output import plain_value
from kafkatools.tools.row_texts import TABLE, TEXT_FORMS


def test_control_characters_of_names_and_cells_do_not_reach_a_terminal() -> None:
    names, rows = ["a\x1b[31m", "b"], [("\x1b[2J", 1)]
    for parts in ([rows], []):
        assert "\x1b" not in "".join(TEXT_FORMS[TABLE](names, iter(parts), True))
        assert "a\x1b[31m" in "".join(TEXT_FORMS[TABLE](names, iter(parts), False))


def test_an_interval_is_text_and_another_tuple_with_such_fields_is_a_list() -> None:
    pa = pytest.importorskip("pyarrow")

    class Period(NamedTuple):
        months: int
        days: int
        nanoseconds: int

    assert plain_value([pa.MonthDayNano([1, 2, 0])]) == ["1 month 2 days"]
    assert plain_value([Period(1, 2, 0)]) == [[1, 2, 0]]
