"""kt console-consumer against the recordings of kafka-console-consumer.sh, on the topics that were recorded."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_NEEDS_GROUPS = {
    "047": "reads as a member of a group",
    "048": "reads as a member of a group",
    "049": "reads as a member of a group",
    "050": "reads as a member of a group",
    "051": "reads as a member of a group",
    "052": "reads as a member of a group",
    "056": "reads as a member of a group",
    "084": "shows what groups have committed",
    "085": "shows groups",
    "089": "shows what groups have committed",
}
_NEEDS_TRANSACTIONS = {"065": "txn", "066": "txn", "067": "txn", "088": "shows transactions"}
_ANOTHER_WAY = {"111": "ended by a signal from outside; see test_cli_main.py"}

_IGNORED = Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", own_words=True)
_FAILED = Difference("consumer-failures", status=ExitStatus.FAILED, own_words=True)
DIFFERENCES = {
    "025": _IGNORED,
    "026": _IGNORED,
    "032": _IGNORED,
    "042": _FAILED,
    "043": _FAILED,
    "044": _FAILED,
    "055": Difference("usage", status=ExitStatus.USAGE),
    "061": Difference("usage", status=ExitStatus.USAGE, own_words=True),
    "068": Difference("usage", own_words=True),
    "069": Difference("usage", own_words=True),
    "070": Difference("consumer-decoding", status=ExitStatus.FAILED, own_words=True),
    "071": Difference("consumer-decoding", status=ExitStatus.FAILED, own_words=True),
    "072": Difference("consumer-decoding", status=ExitStatus.FAILED, own_words=True),
    "074": Difference("no-java-classes", own_words=True),
    "075": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "076": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "081": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "082": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "083": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "086": _FAILED,
    "087": Difference("no-java-classes", status=ExitStatus.USAGE, own_words=True),
    "090": _FAILED,
    "091": _FAILED,
    "095": Difference("repeated-option", own_words=True),
    "097": _IGNORED,
    "103": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "110": _FAILED,
    "113": Difference("help", status=ExitStatus.OK, own_words=True),
}
_UNORDERED = {"046", "057", "059"}
_START = 1_700_000_000_000


def _record(value: object, key: object = None, headers: object = (), index: int = 0) -> dict[str, object]:
    return {"key": key, "value": value, "headers": list(headers), "timestamp": _START + index * 1000}  # type: ignore[call-overload]


def _plain() -> list[dict[str, object]]:
    return [
        _record("v1", "k1", [["h1", "a"], ["h2", "b"]], 0),
        _record("v2", "k2", [], 1),
        _record("v3", None, [["h1", None]], 2),
        _record(None, "k4", [], 3),
        _record("", "", [], 4),
    ]


def _number(number: int, size: int) -> dict[str, str]:
    import base64

    return {"b64": base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()}


def _numbers() -> list[dict[str, object]]:
    keys = [_number(key, 4) for key in (7, -1, 8, 9)]
    values = [_number(1234567890123, 8), _number(-5, 8), {"b64": "AAE="}, _number(42, 8)]
    return [_record(value, key) for key, value in zip(keys, values, strict=True)]


_TOPICS: dict[str, tuple[int, Callable[[], list[dict[str, object]]]]] = {
    "plain": (1, _plain),
    "multi": (
        3,
        lambda: [{**_record(f"m{i}", key), "partition": i % 3} for i, key in enumerate(["a", "b", "c", "d"])],
    ),
    "nums": (1, _numbers),
    "bin": (1, lambda: [_record({"b64": "wygKQQ=="}, {"b64": "/w=="})]),
    "aaa.one": (1, lambda: [_record("one")]),
    "aaa.two": (1, lambda: [_record("two")]),
    "empty": (1, list),
    "txn": (1, list),
}


def _fill(bootstrap: str) -> None:
    for name, (partitions, records) in _TOPICS.items():
        made = run_kt(
            "topics", "--bootstrap-server", bootstrap, "--create", "--topic", name, "--partitions", str(partitions)
        )
        assert made.status == ExitStatus.OK, made.err
        lines = "".join(json.dumps(record) + "\n" for record in records()).encode()
        sent = run_kt("console-producer", "--json", "--bootstrap-server", bootstrap, "--topic", name, stdin=lines)
        assert sent.status == ExitStatus.OK, sent.err


def _adapted(case: Case, wanted: Expected) -> Expected:
    if case.number in _UNORDERED:
        return wanted._replace(stdout=_sorted(wanted.stdout))
    return wanted


def _sorted(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


@pytest.mark.slow
def test_console_consumer_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    _fill(bootstrap)

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        words = [word.replace("UNREACHABLE", "127.0.0.1:9").replace("BOOTSTRAP", bootstrap) for word in case.args]
        words = [re.sub(r"^(1500|2000|3000)$", "700", word) for word in words]
        ran = run_kt("console-consumer", *words, cwd=tmp_path)
        return ran._replace(stdout=_sorted(ran.out).encode()) if case.number in _UNORDERED else ran

    left_out = _NEEDS_GROUPS | _NEEDS_TRANSACTIONS | _ANOTHER_WAY
    cases = [case for case in transcripts.load("console-consumer") if case.number not in left_out]
    failures = transcripts.replay(cases, run, DIFFERENCES, _adapted)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
