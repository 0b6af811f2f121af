"""kt dump-log on every recorded segment against the output of Apache Kafka's tool, byte for byte.

Where Kafka's tool ended with an exception, `kt` goes on: its stdout begins with Kafka's, and with --stop-at-damage it
is Kafka's. Kafka's wording is looked for on stderr, except where it is that of a Java library or says nothing.
"""

from __future__ import annotations

import re

import pytest
from support import recorded_segments
from support.kt import Ran, run_kt
from support.recorded_segments import RecordedCase

from kafkatools.exit_status import ExitStatus

# what `kt` refuses before it does anything, or shows otherwise; see docs/differences.md
_OTHERWISE = {"help", "bad-number", "max-message-size-text", "negative-max-bytes", "empty-files", "version"}
_OWN_WORDS = re.compile(
    r"java\.util\.NoSuchElement|IndexOutOfBounds|BufferUnderflow|OutOfMemory|java\.util\.zip|java\.io\.IOException"
    r"|Invalid max index size|NoSuchFile"
    r'|For input string: "abc"'  # a file that is not there: Kafka stumbles over its name before it looks
)
_IDENTITY = re.compile(rb"\[B@[0-9a-f]+")


def _recorded() -> list[object]:
    return [pytest.param(*name, id="/".join(name[1:])) for name in recorded_segments.names()]


@pytest.mark.parametrize(("archive", "directory", "name"), _recorded())
def test_output_is_that_of_apache_kafka(archive: str, directory: str, name: str) -> None:
    if directory == "command-line" and name in _OTHERWISE:
        return
    case = recorded_segments.case(archive, directory, name)
    ran = run_kt("dump-log", *case.args, cwd=case.log)
    wanted, shown = _stdout(case, ran)
    if case.exit == 0:
        assert shown == wanted
        _assert_summary(case, ran)
        assert not (ran.status is ExitStatus.FINDINGS and _is_sound(directory)), ran.err
    else:
        assert shown[: len(wanted)] == wanted
        assert ran.status != ExitStatus.OK
        stopped = run_kt("dump-log", "--stop-at-damage", *case.args, cwd=case.log)
        assert stopped.stdout in (case.stdout, case.stdout + b"\n")
        _assert_wording(directory, case, ran)


def _stdout(case: RecordedCase, ran: Ran) -> tuple[bytes, bytes]:
    """Kafka's and our stdout; Java shows an array's identity where `kt` shows base64."""
    if not _IDENTITY.search(case.stdout):
        return case.stdout, ran.stdout
    pieces = [re.escape(piece) for piece in _IDENTITY.split(case.stdout)]
    matched = re.fullmatch(rb"[A-Za-z0-9+/]*={0,2}".join(pieces), ran.stdout)
    assert matched is not None
    return b"", b""


def _assert_summary(case: RecordedCase, ran: Ran) -> None:
    said = set(ran.err.splitlines())
    assert [line for line in case.stderr.splitlines() if line not in said] == []


def _assert_wording(directory: str, case: RecordedCase, ran: Ran) -> None:
    first = case.stderr.splitlines()[0]
    message = first.removeprefix('Exception in thread "main" ').partition(": ")[2]
    is_codec = "bitflip-lz4" in directory or "bitflip-gzip" in directory
    if message and not _OWN_WORDS.search(first) and not is_codec:
        assert message.removesuffix(".") in ran.err, "what was lost follows after a semicolon"


def _is_sound(directory: str) -> bool:
    return not directory.startswith("damaged")


@pytest.mark.slow
def test_every_damaged_log_has_a_finding() -> None:
    """Some case of each damaged recording ends with 3, or with 1 where a file is missing."""
    worst: dict[str, int] = {}
    for archive, directory, name in recorded_segments.names():
        if directory.startswith("damaged"):
            case = recorded_segments.case(archive, directory, name)
            status = int(run_kt("dump-log", *case.args, cwd=case.log).status)
            worst[directory] = max(worst.get(directory, 0), status)
    # these cannot be told from sound files: all entries cut out, zero entries at the end, a changed value
    sound = {directory for directory, status in worst.items() if status == 0}
    assert sound == {
        "damaged-bitflip-snappy-valid-crc",
        "damaged-index-empty",
        "damaged-index-last-zero",
        "damaged-index-zero-tail",
        "damaged-timeindex-empty",
    }
