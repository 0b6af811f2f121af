"""Names that --rename gives, as `sed -E s///g` gives them."""

from __future__ import annotations

import pytest

from kafkatools.options.topic_renames import target_names


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("orders.eu.v1=other", "other"),
        ("s/^/new-/", "new-orders.eu.v1"),
        ("s/$/-old/", "orders.eu.v1-old"),
        ("s/.*/one/", "one"),
        (r"s/(.*)/new-\1/", "new-orders.eu.v1"),
        (r"s/\./-/", "orders-eu-v1"),
    ],
)
def test_a_rule_gives_one_name(rule: str, expected: str) -> None:
    assert target_names(["orders.eu.v1"], (), (rule,)) == {"orders.eu.v1": expected}
