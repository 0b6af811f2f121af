"""Patterns over topic names: what Python's `re` says, in linear time."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.broker.coordinators.groups.topic_regex import compiled
from kafkatools.core.errors import InvalidRegularExpression
from kafkatools.core.java.linear_pattern import MOST_CACHED_STATES, LinearPattern, TooComplex

NAMES = ["", "a", "b", "ab", "aab", "abab", "A", "a.b", "a-b", "a_b", "foo", "foo-1", "foo-bar", "fooo", "0", "10.2"]
PATTERNS = [
    "", "a", "a*", "a+b?", "(a|b)*", "(a+)+b", "[a-c]+", "[^a]+", r"\w+", r"\W", r"\d+\.\d", r"[\d.]+", ".*",
    ".+b.*", "a{2}b", "a{1,2}b", "(ab){2,}", "(?i)a", "(?i:A)b", "(?i)[a-c]b", "^a$", r"\Aab\Z", r"\bfoo\b.*",
    r"a\Bb", "foo|bar", "(foo|bar)-[0-9]+", "a??b", "(a|aa)+", "(?:a)(b)", "fo{2,3}", "[a-z]+([-.][a-z]+)*", "(|a)b",
    "()", "(a*)*", "(a?){3}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_as_in_re(pattern: str) -> None:
    ours, theirs = LinearPattern(pattern, re.ASCII), re.compile(pattern, re.ASCII)
    assert [ours.fullmatch(name) for name in NAMES] == [theirs.fullmatch(name) is not None for name in NAMES]


def elements() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", "-", r"\.", r"\b", "^", "$"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=5,
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(elements(), st.lists(st.text("ab1.-_", max_size=6), min_size=1, max_size=8))
def test_any_pattern_matches_as_in_re(pattern: str, names: list[str]) -> None:
    ours, theirs = LinearPattern(pattern, re.ASCII), re.compile(pattern, re.ASCII)
    assert [ours.fullmatch(name) for name in names] == [theirs.fullmatch(name) is not None for name in names]


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", ".*.*.*.*.*.*b", "(a?){100}a{100}b", r"(\w+\w)*b"]
)
def test_patterns_that_never_end_in_re_take_little_time(pattern: str) -> None:
    found = LinearPattern(pattern, re.ASCII)
    begun = time.thread_time()
    assert not found.fullmatch("a" * 249)
    assert time.thread_time() - begun < 2


def test_a_pattern_with_too_many_states_is_refused() -> None:
    for pattern in ("(((a{50}){50}){50})", "a" * 5000, "(a|b)" * 2000):
        with pytest.raises(TooComplex):
            LinearPattern(pattern, re.ASCII)


@pytest.mark.parametrize("pattern", ["(((){1000}){1000}){1000}", "(){1000000000}", "(?:(){65535}){65535}a"])
def test_an_empty_element_is_not_repeated(pattern: str) -> None:
    found = LinearPattern(pattern, re.ASCII)
    assert found.fullmatch("a" if pattern.endswith("a") else "")


@pytest.mark.parametrize(
    "pattern",
    [
        "\u00e4+", "[\u00e0-\u00ff]+", "[^a]+", "(?i)\u00c4+", ".", "(?s).", r"\W+", "[\u0100-\U0010ffff]", r"\s",
        r"[^\s]+", r"(?m)^a$\s^b$", r"(?m)a$.*", "(?i)[^a-c]+", r"[\w/]+", "a.b", r"\D",
    ],
)  # fmt: skip
def test_names_of_any_characters_match_as_in_re(pattern: str) -> None:
    names = [
        "\u00e4",
        "\u00e4\u00e4",
        "\u00c4",
        "\U0001f600",
        "a/b",
        "a b",
        " ",
        "\n",
        "a\nb",
        "a",
        "B",
        "x/1",
        "\ud7ff",
    ]
    ours, theirs = LinearPattern(pattern, re.ASCII), re.compile(pattern)
    if "(?i)" not in pattern:
        theirs = re.compile(pattern, re.ASCII)
    assert [ours.fullmatch(name) for name in names] == [theirs.fullmatch(name) is not None for name in names]


def test_a_pattern_of_many_subsets_keeps_few_steps() -> None:
    rng = random.Random(5)
    pattern = LinearPattern(".*a.{900}", re.ASCII)
    for _ in range(20):
        pattern.fullmatch("".join(rng.choices("ab", k=249)))
    assert sum(map(len, pattern._steps.values())) <= MOST_CACHED_STATES


def test_many_names_are_matched_quickly() -> None:
    rng = random.Random(3)
    names = ["".join(rng.choices("abcdef.-", k=20)) for _ in range(10_000)]
    pattern = LinearPattern("(a|b|c).*-[a-f]+", re.ASCII)
    theirs = re.compile("(a|b|c).*-[a-f]+", re.ASCII)
    begun = time.thread_time()
    assert [pattern.fullmatch(name) for name in names] == [theirs.fullmatch(name) is not None for name in names]
    assert time.thread_time() - begun < 5


def test_a_subscription_that_never_ends_in_re_is_matched() -> None:
    pattern = compiled("(([a-z])+.)+[A-Z]([a-z])+")
    begun = time.thread_time()
    assert not pattern.fullmatch("a" * 249)
    assert time.thread_time() - begun < 2
    assert pattern.fullmatch("ab.Topic")


def test_a_subscription_that_is_too_large_is_an_error_of_its_group() -> None:
    with pytest.raises(InvalidRegularExpression, match="expression too large"):
        compiled("(((a{50}){50}){50})")
