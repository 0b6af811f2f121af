"""JSON of others: values, texts that are none, and nesting beyond what the parser takes."""

from __future__ import annotations

import json

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
