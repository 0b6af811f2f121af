"""JSON lines, tables, escaping."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.output import json_bytes, json_error, json_line, table, visible
from kafkatools.tools.lines.json_records import bytes_of_json


@given(st.none() | st.binary())
def test_bytes_come_back_from_json(data: bytes | None) -> None:
    assert bytes_of_json(json.loads(json.dumps(json_bytes(data)))) == data


def test_bytes_that_are_no_text_are_base64_and_null_is_not_empty() -> None:
    row = {"key": b"\xff\x00", "value": b"caf\xc3\xa9", "none": None, "empty": b"", "list": [b"a", (b"\x80",)]}
    assert json_line(row) == (
        '{"key":{"b64":"/wA="},"value":"café","none":null,"empty":"","list":["a",[{"b64":"gA=="}]]}'
    )


@pytest.mark.parametrize("value", [1, ["a"], {"b64": 1}, {"b64": "a", "x": 1}, {"b64": "not base64!"}])
def test_other_json_is_not_bytes(value: object) -> None:
    with pytest.raises(ValueError):
        bytes_of_json(value)


def test_errors_have_one_form() -> None:
    assert json.loads(json_error("USAGE", "wrong", exit=2)) == {
        "error": {"kind": "USAGE", "message": "wrong", "exit": 2}
    }


def test_control_characters_are_escaped() -> None:
    assert visible("a\x1b[31m\t\x9b\r\n\x7f") == "a\\x1b[31m\\t\\x9b\\r\\n\\x7f"


def test_tables_are_plain_text_away_from_a_terminal() -> None:
    assert table(["NAME", "COUNT"], [["alpha", 1], ["b", 200]]) == "NAME   COUNT\nalpha  1\nb      200\n"
    drawn = table(["NAME"], [["a\x1b"]], terminal=True)
    assert "NAME" in drawn and "a\\x1b" in drawn
