"""What the tests of the administrators' commands share: records for them to find, and a replay of a whole tool."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Collection, Mapping

import transcripts
from support.kt import Ran, run_kt
from transcripts import Adapt, Case, Difference

from kafkatools.exit_status import ExitStatus

START = 1_700_000_000_000


def send(bootstrap: str, topic: str, partitions: int, records: list[tuple[int, int]], value: str = "v") -> None:
    """Creates a topic and sends records of (partition, timestamp), one at a time so that each is a batch."""
    create = ("--create", "--topic", topic, "--partitions", str(partitions))
    assert run_kt("topics", "--bootstrap-server", bootstrap, *create).status == ExitStatus.OK
    if records:
        fill(bootstrap, topic, records, value)


def fill(bootstrap: str, topic: str, records: list[tuple[int, int]], value: str = "v") -> None:
    """Sends records of (partition, timestamp), one at a time so that each is a batch."""
    lines = "".join(json.dumps({"value": value, "partition": p, "timestamp": t}) + "\n" for p, t in records)
    words = ("console-producer", "--json", "--sync", "--bootstrap-server", bootstrap, "--topic", topic)
    sent = run_kt(*words, stdin=lines.encode())
    assert sent.status == ExitStatus.OK, sent.err


def words(case: Case, bootstrap: str) -> list[str]:
    """The arguments of a case, for this broker."""
    return [word.replace("UNREACHABLE", "127.0.0.1:9").replace("BOOTSTRAP", bootstrap) for word in case.args]


def run_case(tool: str, case: Case, bootstrap: str, directory: pathlib.Path) -> Ran:
    """Runs a case in its directory, with its files there."""
    transcripts.write_files(case, directory)
    return run_kt(tool, *words(case, bootstrap), cwd=directory)


def failures(
    tool: str,
    bootstrap: str,
    directory: pathlib.Path,
    differences: Mapping[str, Difference],
    *,
    not_here: Collection[str] = (),
    adapt: Adapt | None = None,
) -> list[str]:
    """Replays the recordings of a tool but for those that this broker cannot show; the complaints."""

    cases = [case for case in transcripts.load(tool) if case.number not in not_here]
    return transcripts.replay(cases, lambda case: run_case(tool, case, bootstrap, directory), differences, adapt)


def described_offsets(kt: Callable[..., Ran], group: str) -> dict[tuple[str, int], int | None]:
    """What a group committed, as `kt consumer-groups` tells it."""
    described = json.loads(kt("--describe", "--group", group, "--json").out)
    return {(one["topic"], one["partition"]): one["offset"] for one in described["partitions"]}
