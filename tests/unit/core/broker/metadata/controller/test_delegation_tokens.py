"""Times of delegation tokens."""

from __future__ import annotations

import pytest

from kafkatools.core.broker.metadata.controller.delegation_tokens import LONG_MAX, TokenRules, create

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("rules", "lifetime_ms", "ends"),
    [
        (TokenRules(b"k", 1000, 10), -1, (NOW_MS + 10, NOW_MS + 1000)),
        (TokenRules(b"k", 1000, 10), 5, (NOW_MS + 5, NOW_MS + 5)),
        (TokenRules(b"k", LONG_MAX, 10), LONG_MAX, (NOW_MS + 10, LONG_MAX)),
        (TokenRules(b"k", LONG_MAX, LONG_MAX), -1, (LONG_MAX, LONG_MAX)),
    ],
)
def test_the_times_of_a_new_token(rules: TokenRules, lifetime_ms: int, ends: tuple[int, int]) -> None:
    token = create("User:a", "User:a", (), lifetime_ms, rules, NOW_MS)
    assert (token.expiration_timestamp, token.max_timestamp) == ends
