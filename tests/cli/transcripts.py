"""Replays recordings of Apache Kafka's tools against `kt` and tells what differs.

The recordings (tests/golden/cli/<tool>/*.json) were made with Apache Kafka 4.3.1: arguments, stdin, stdout, stderr,
exit code. `kt` has to give the same stdout byte for byte and the same first line of an error, apart from
- volatile parts, which are masked on both sides (ids, addresses, times, which broker leads);
- the deliberate differences of docs/differences.md. Those that follow from a rule are derived here: errors and warnings
  that Kafka prints on stdout are looked for on stderr, exit 1 of a usage error is 2. All others stand in a table,
  case by case, with the key of their line in docs/differences.md.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from support.kt import Ran

from kafkatools.exit_status import ExitStatus

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "cli"
DIFFERENCES = pathlib.Path(__file__).parent.parent.parent / "docs" / "differences.md"

_ON_STDOUT = re.compile(
    r"^(?:Error while executing topic command : |WARNING: Due to limitations"
    r"|(?:Warning: |Option )--\S+ is deprecated and will be removed)"
)
_NOISE = re.compile(
    r"^The consumer rebalance protocol \(KIP-848\)|^\[[-\d]+ [\d:,]+\] WARN "
    r"|^\[[-\d]+ [\d:,]+\] ERROR (?:Error processing message|Unknown error when running consumer|\[\w+ clientId=)"
    r"|^org\.apache\.kafka\.common\.errors\.TimeoutException$"
)
_LOG_LINE = re.compile(r"^\[[\d-]+ [\d:,]+\] (?:ERROR|WARN) ")
_JAVA = re.compile(r'^(?:Exception in thread "main" )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ')
_USAGE = re.compile(
    r"<option table>|is not a recognized option|requires an argument|Found multiple arguments|Cannot parse argument"
    r"|^usage: |must be specified|<tool description>"
)
_MASKS = (
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"directory\.id=[\w-]{22}"), "directory.id=ID"),
    (re.compile(r"(salt|storedKey|serverKey)=\[[-\d, ]*\]"), r"\1=[...]"),
)
_LAYOUT = re.compile(r"Leader: \d+\tReplicas: [\d,]+\tIsr: [\d,]+\t")


class Case(NamedTuple):
    """One recorded run."""

    name: str
    args: tuple[str, ...]
    stdin: str
    stdout: str
    stderr: str
    exit: int
    setup: str
    volatile: tuple[str, ...]
    files: Mapping[str, str]
    topic_after: str | None

    @property
    def number(self) -> str:
        """The case's number in its tool: `041`."""
        return self.name.split("-")[0]


class Difference(NamedTuple):
    """What `kt` does deliberately otherwise in one case; `key` is its line in docs/differences.md.

    `stdout` and `stderr` (its first line) replace what was recorded; `None` means: as recorded, by the rules.
    `own_words`: stdout and stderr are ours, only the exit status is compared.
    """

    key: str
    status: ExitStatus | None = None
    stdout: str | None = None
    stderr: str | None = None
    own_words: bool = False


class Expected(NamedTuple):
    """What a run of `kt` has to give; `error` is the first line of stderr, None when it does not matter."""

    status: ExitStatus
    stdout: str
    error: str | None


Adapt = Callable[[Case, Expected], Expected]


def load(tool: str) -> list[Case]:
    """The recordings of a tool in the order in which they were made."""
    return [_case(path) for path in sorted((GOLDEN / tool).glob("*.json"))]


def _case(path: pathlib.Path) -> Case:
    recorded = json.loads(path.read_text())
    return Case(
        name=path.stem,
        args=tuple(recorded["args"]),
        stdin=recorded["stdin"],
        stdout=recorded["stdout"],
        stderr=recorded["stderr"],
        exit=recorded["exit"],
        setup=recorded["setup"],
        volatile=tuple(recorded["volatile"]),
        files=recorded.get("files", {}),
        topic_after=recorded.get("topic_after"),
    )


def expected(case: Case, difference: Difference | None) -> Expected:
    """The recording, turned by the rules and the case's difference into what `kt` has to do."""
    lines = case.stdout.splitlines(keepends=True)
    moved = [line for line in lines if _ON_STDOUT.match(line)]
    stdout = "".join(line for line in lines if not _ON_STDOUT.match(line))
    status, error = _status(case), _first_error(case, moved)
    if difference is not None:
        status = status if difference.status is None else difference.status
        stdout = stdout if difference.stdout is None else difference.stdout
        error = error if difference.stderr is None else difference.stderr
    return Expected(status, stdout, error)


def _status(case: Case) -> ExitStatus:
    if case.exit == 0:
        return ExitStatus.OK
    return ExitStatus.USAGE if _USAGE.search(case.stdout + case.stderr) else ExitStatus.FAILED


def _first_error(case: Case, moved: Sequence[str]) -> str | None:
    """The first line of stderr that `kt` owes: without Java's class names, log prefixes and argparse4j's synopsis."""
    if moved:
        return moved[0].rstrip("\n")
    text = case.stderr
    if not text:
        return "" if case.exit == 0 else None
    if text.startswith("usage: "):
        error = re.search(r"^(?:kafka|verifiable)-\S+: error: .*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        return " ".join(error.group(0).split()) if error else None
    first = next((line for line in text.splitlines() if not _NOISE.match(line)), "")
    if first.startswith(("<tool description>", "<option table>")):
        return None
    return _JAVA.sub("", _LOG_LINE.sub("", first))


def mask(text: str, case: Case) -> str:
    """The text with everything replaced that differs from run to run."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    if any("replica" in one for one in case.volatile):
        text = _LAYOUT.sub("Leader: N\tReplicas: N\tIsr: N\t", text)
    if "uuid" in case.volatile:
        text = re.sub(r"^[\w-]{22}$", "UUID", text, flags=re.MULTILINE)
    return text


def complaints(case: Case, ran: Ran, wanted: Expected) -> list[str]:
    """What is wrong with a run; empty when it is as expected."""
    found = []
    if ran.status != wanted.status:
        found.append(f"exit {int(ran.status)}, expected {int(wanted.status)}; stderr: {ran.err[:300]!r}")
    stdout, wanted_stdout = mask(ran.out, case), mask(wanted.stdout, case)
    if stdout != wanted_stdout:
        found.append(f"stdout\n    {stdout!r}\n  expected\n    {wanted_stdout!r}\n  stderr {ran.err[:300]!r}")
    if wanted.error is not None:
        first = ran.err.splitlines()[0] if ran.err else ""
        if first != wanted.error:
            found.append(f"stderr begins with\n    {first!r}\n  expected\n    {wanted.error!r}")
    return found


def replay(
    cases: Iterable[Case], run: Callable[[Case], Ran], differences: Mapping[str, Difference], adapt: Adapt | None = None
) -> list[str]:
    """Runs the cases in their order; the complaints of all of them. `adapt` may change what is expected of a case."""
    failures = []
    for case in cases:
        difference = differences.get(case.number)
        wanted = expected(case, difference)
        if adapt is not None:
            wanted = adapt(case, wanted)
        ran = run(case)
        if difference is not None and difference.own_words:
            wanted = wanted._replace(stdout=ran.out, error=None)
        failures += [f"{case.name}: {problem}" for problem in complaints(case, ran, wanted)]
    return failures


def expand(text: str) -> bytes:
    """Recorded stdin as bytes: `{x*1200000}` is that many letters x."""
    return re.sub(r"\{(\w)\*(\d+)\}", lambda match: match.group(1) * int(match.group(2)), text).encode()


def write_files(case: Case, directory: pathlib.Path) -> None:
    """The input files of a case, in the working directory."""
    for name, text in case.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)  # some hold passwords, and a file that others can read is warned about


def documented_keys() -> set[str]:
    """The keys of docs/differences.md: `| key | ...`, each in code quotes at the start of a table line."""
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", DIFFERENCES.read_text(), re.MULTILINE))
