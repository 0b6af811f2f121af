"""Which names a topic can have."""

from __future__ import annotations

import pytest

from kafkatools.core.topic_names import is_topic_name, topic_name_problem


@pytest.mark.parametrize("name", ["a", "...", "__consumer_offsets", "A.b_c-9", "x" * 249])
def test_a_topic_can_have_the_name(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        *((name, f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
          for name in ("a b", "a/b", "ä", "٣", "a\n")),
    ],
)  # fmt: skip
def test_no_topic_can_have_the_name(name: str, problem: str) -> None:
    assert not is_topic_name(name)
    assert topic_name_problem(name) == f"Topic name is invalid: {problem}"
