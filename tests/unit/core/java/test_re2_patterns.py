"""RE2 patterns by google-re2 and without it, compared with Apache Kafka (tests/golden/re2/matches.json)."""

from __future__ import annotations

import pathlib

import pytest
from support.embedded import embedded_broker
from support.pattern_story import NAMES, PATTERNS, golden, tell

from kafkatools.core.java.re2_patterns import (
    MOST_CHARACTERS,
    NOT_TRANSLATED,
    TOO_LARGE,
    InvalidPattern,
    Matcher,
    compile_re2,
    compile_translated,
    native_compiler,
)

# Its tables of symbols are newer than RE2/J's, and it refuses more than 1,000 repetitions inside of each other.
OTHERWISE_IN_GOOGLE_RE2 = {r"\pS", "(a{1000}){2}"}
# These letters have a third form: the Kelvin sign and the long s.
OTHERWISE_WITHOUT_IT = {"(?i)k", "(?i)s", "(?i)ß"}


def matches(matcher: Matcher) -> list[int]:
    """The positions in NAMES of those that match."""
    return [position for position, name in enumerate(NAMES) if matcher.fullmatch(name)]


@pytest.mark.slow
def test_the_broker_answers_as_apache_kafka(tmp_path: pathlib.Path) -> None:
    settings = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "2"}
    with embedded_broker(tmp_path, **settings) as bootstrap:
        answers = tell(bootstrap)
    expected = golden()
    differences = {pattern for pattern in PATTERNS if answers[pattern] != expected[pattern]}
    assert differences == OTHERWISE_IN_GOOGLE_RE2


def test_without_google_re2_a_pattern_matches_alike_or_is_refused() -> None:
    refused, differences = set(), set()
    for pattern, expected in golden().items():
        if expected and isinstance(expected[0], str):
            continue
        try:
            found = matches(compile_translated(pattern))
        except InvalidPattern as invalid:
            assert str(invalid) in (NOT_TRANSLATED, TOO_LARGE)
            refused.add(pattern)
        else:
            if found != expected:
                differences.add(pattern)
    assert differences == OTHERWISE_WITHOUT_IT
    assert len(refused) < len(PATTERNS) / 4
    assert refused.isdisjoint({r"\Qa.b\E", r"\Qa.b", r"a\Q.\Eb", "(?i-i)a", "(?-i)a"})


@pytest.mark.parametrize(
    ("pattern", "name", "others"),
    [
        (r"\Qa[:alpha:]\E", "a[:alpha:]", ["ab", "a:"]),
        (r"\Qa\z\E", r"a\z", ["a"]),
        (r"\Qab\E*", "abbb", ["abab"]),  # of the last character, as in RE2
        (r"\\Q.\Q.\E[[:digit:]]", r"\Qx.1", [r"\Qxx1", r"\Q..a"]),
        (r"orders\Q.eu\E(-[0-9]+)?", "orders.eu-12", ["orders-eu"]),
        (r"(?i-s)a\QB\E", "Ab", ["xb"]),
        (r"\Q\E", "", ["a"]),
    ],
)
def test_quoted_text_is_text(pattern: str, name: str, others: list[str]) -> None:
    for matcher in (compile_translated(pattern), compile_re2(pattern)):  # the second one by google-re2
        assert matcher.fullmatch(name)
        assert not any(map(matcher.fullmatch, others))


def test_a_name_may_come_character_by_character() -> None:
    assert compile_re2("a.c").fullmatch(iter("abc"))
    assert compile_translated("a.c").fullmatch(iter("abc"))


@pytest.mark.parametrize("pattern", ["a" * (MOST_CHARACTERS + 1), r"\pL{1000}"])
def test_a_pattern_that_is_too_large_is_refused(pattern: str) -> None:
    assert native_compiler() is not None
    with pytest.raises(InvalidPattern, match=TOO_LARGE):
        compile_re2(pattern)
