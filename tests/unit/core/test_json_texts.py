"""JSON of others: values, texts that are none, and nesting beyond what the parser takes."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from kafkatools.core.json_texts import parse_json


def test_a_value_is_parsed_from_text_and_bytes() -> None:
    assert parse_json('{"a": [1, null]}') == parse_json(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_that_is_too_deep_is_a_value_error(opening: str) -> None:
    with pytest.raises(ValueError, match="^it is nested too deeply$"):
        parse_json(opening * 100_000)


def test_a_text_that_is_no_json_has_its_position() -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        parse_json("[\n1,,2]")
    assert (raised.value.lineno, raised.value.colno) == (2, 3)


def test_numbers_that_python_does_not_convert_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="^a number has more than 4300 digits$"):
        parse_json("9" * 4_301)
    with pytest.raises(ValueError, match="^the exponent of a number is too large$"):
        parse_json("1e99999999999999999999", parse_float=Decimal)


def test_bytes_that_are_not_utf8_name_the_position() -> None:
    with pytest.raises(UnicodeDecodeError, match="0xff in position 1"):
        parse_json(b'"\xff"')
