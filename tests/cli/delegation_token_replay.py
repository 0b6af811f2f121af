"""What the replays of kafka-delegation-tokens.sh's recordings share: without SASL and, on a real Apache Kafka, with."""

from __future__ import annotations

import re

from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_USAGE = "usage"
_VALUE = "Option max-life-time-period requires an argument"
DIFFERENCES = {
    "004": Difference("tokens-describe", own_words=True),
    "001": Difference("tokens-describe"),
    "009": Difference(_USAGE, status=ExitStatus.USAGE, stdout="", stderr="The HMAC is not valid base64"),
    "013": Difference(
        _USAGE,
        status=ExitStatus.USAGE,
        stderr="expected a string in format principalType:principalName but got bob",
    ),
    "019": Difference(_USAGE, status=ExitStatus.USAGE, stderr=_VALUE),
    "020": Difference(
        "numbers", status=ExitStatus.USAGE, stderr="Cannot parse argument 'x' of option max-life-time-period"
    ),
    "032": Difference("unreachable", status=ExitStatus.FAILED, own_words=True),
    "036": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "037": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "038": _HELP._replace(status=ExitStatus.USAGE),
    "040": _HELP,
}
_MASKS = (
    (re.compile(r"[A-Za-z0-9+/]{86}=="), "HMAC"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d\b"), "DATE"),
    (re.compile(r"tokenId : [\w-]{22}"), "tokenId : ID"),
)
_ROW = re.compile(r"^[\w-]{22} (HMAC .*)\n\n?", re.MULTILINE)


def masked(text: str) -> str:
    """Without ids, HMACs and dates; rows in sorted order (the brokers keep tokens in a hash map)."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    rows = sorted(_ROW.findall(text))
    return "\n".join([_ROW.sub("", text).rstrip("\n"), *rows]) + "\n"


def expect(case: Case, wanted: Expected) -> Expected:
    """Kafka's tool ends a renewal without a newline."""
    if "Completed" in wanted.stdout:
        return wanted._replace(stdout=wanted.stdout.rstrip("\n") + "\n")
    return wanted
