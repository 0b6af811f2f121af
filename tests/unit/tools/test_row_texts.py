"""Rows as a table on a terminal."""

from __future__ import annotations

from kafkatools.tools.row_texts import TABLE, TEXT_FORMS


def test_control_characters_of_names_and_cells_do_not_reach_a_terminal() -> None:
    names, rows = ["a\x1b[31m", "b"], [("\x1b[2J", 1)]
    for parts in ([rows], []):
        assert "\x1b" not in "".join(TEXT_FORMS[TABLE](names, iter(parts), True))
        assert "a\x1b[31m" in "".join(TEXT_FORMS[TABLE](names, iter(parts), False))
