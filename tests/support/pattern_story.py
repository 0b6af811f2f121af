"""Patterns of transactional ids (ListTransactions) and of topics (SubscribedTopicRegex), put to a broker."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from support.transaction_teller import Teller, error

from kafkatools.core.protocol.api_versions import ApiKey

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "re2" / "matches.json"
NAMES = (
    "a", "A", "ab", "aab", "abab", "a.b", "a-b", "a_b", "foo", "foo-1", "0", "10.2", "Àx", "àx", "þx", "é", "É", "ß",
    "ẞ", "ss", "K", "k", "\u212a", "ſ", "s", "Ω", "ω", "ї", "日本", "🙂", "a b", "a\tb", "a\nb", "a\n", "\n", "a\\b",
    "[a]", "a|b", "\u0661", "x\u0301", "\u00a0", "\u2028", "\x0b", "-", "^", "$", "{2}", "a{2}",
)  # fmt: skip
PATTERNS = (
    "a", "(?i)a", "(?i)[à-þ]x", "(?i)é", "(?i)ß", "(?i)k", "(?i)s", "(?i)ω", r"\pL+", r"\p{Greek}", r"\PL", r"\pN+",
    r"\p{Lu}.*", r"\p{^Lu}", r"\pS", r"\w+", r"\W", r"\d+", r"\s", r"\S+", r".", r".*", r"(?s).*", r"(?s).", "^a$",
    "a$", "(?m)^a$.*", r"(?ms)^a$.*", r"a\z", r"a\Z", r"\Aa", r"\ba\b", r"a\Bb", r"\Qa.b\E", r"\Qa.b", r"a\Q.\Eb",
    r"[[:word:]]+", r"[[:^alpha:]]", r"[[:foo:]]", r"[a-\d]+", r"[\d-a]", r"[^\n]", r"[^a]", "[]a]", "[^]a]", "[a",
    "[]", "(?P<n>a)", "(?<n>a)", "(?P<n>a)(?P<n>b)", "(?:a|ab)(?:b|)", "(?U)a+", "a+?", "a*?b", "a**", "a*+",
    "a{2}b", "a{,2}", "a{2", "{2}", "a{1001}", "(a{1000}){2}", "(?=a)", "(?!a).", "(?<=a)b", r"(a)\1", r"\8",
    r"\x41", r"\x{1F642}", r"\x{110000}", r"\101", r"\07", r"\a", r"\C", r"\C+", "(", ")", "a)", "|", "a|", "()",
    "(|a)b*", "\\", "(?z)a", "(?i-i)a", "(?i:A)b", "(?-i)a", "(?i)a(?-i)B", r"[\pL\d]+", r"[^\pL]", r"[\p{^L}]",
    r"\p{Foo}", r"\p", r"\pX", "(?#c)a", "(?x) a", "\t", "a b", r"[\Qa\E]+", r"[a-c&&b]", r"\h", r"\R", r"\u0041",
    r"\cA", r"\e", "a++", "(?>a)", r"\G", r"\X", r"\N", "é", "[é-ї]", "🙂", "[🙂]", ".{2}",
)  # fmt: skip


def golden() -> dict[str, Any]:
    """What Apache Kafka 4.3.1 answered."""
    answers: dict[str, Any] = json.loads(GOLDEN.read_text())
    return answers


def tell(bootstrap: str) -> dict[str, Any]:
    """For each pattern the transactional ids that ListTransactions names, as positions in NAMES, or its error; and for
    invalid ones the message for a subscription, without the pattern."""
    teller = Teller(bootstrap, "patterns")
    answers: dict[str, Any] = {}
    with teller.client:
        teller.find_coordinator("a")
        for name in NAMES:
            teller.init(name)
        for pattern in PATTERNS:
            fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
            found = teller.client.call(ApiKey.LIST_TRANSACTIONS, 2, {**fields, "transactional_id_pattern": pattern})
            if int(found.error_code):
                answers[pattern] = [error(found.error_code), _subscribe(teller, pattern)]
            else:
                listed = [each.transactional_id for each in found.transaction_states]
                answers[pattern] = sorted(NAMES.index(name) for name in listed if name in NAMES)
    return answers


def _subscribe(teller: Teller, pattern: str) -> str:
    """The error message of a member that subscribes by a pattern."""
    member = {"group_id": "patterns", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000}
    while True:
        fields = {**member, "topic_partitions": [], "subscribed_topic_regex": pattern}
        answer = teller.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
        if error(answer.error_code) not in (
            "COORDINATOR_NOT_AVAILABLE",
            "NOT_COORDINATOR",
            "COORDINATOR_LOAD_IN_PROGRESS",
        ):
            assert error(answer.error_code) == "INVALID_REGULAR_EXPRESSION", (pattern, answer)
            return str(answer.error_message).replace(pattern, "PATTERN")
        teller.find_coordinator("patterns", kind=0)
