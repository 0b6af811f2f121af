"""What the replays of kafka-reassign-partitions.sh share: on one broker of ours, and on three of Apache Kafka.

Kafka's tool prints its errors on stdout, with the class of the exception in front and a stack trace behind; here they
are expected on stderr. Directories are LOGDIR1 to LOGDIR3 in the recordings. What --generate proposes is drawn by lot.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

TOOL = "reassign-partitions"
_USAGE = Difference("usage", status=ExitStatus.USAGE)
_FINDINGS = Difference("verify-findings", status=ExitStatus.FINDINGS)
_UNKNOWN_BROKER = Difference("generate-unknown-broker", stderr="Error: Unknown broker id 9")
DIFFERENCES = (
    dict.fromkeys(("066", "067", "068", "071", "074", "077", "079", "080", "081"), _USAGE)
    | dict.fromkeys(("017", "020", "032", "035", "037"), _FINDINGS)
    | {
        "006": _UNKNOWN_BROKER,
        "008": Difference("usage", status=ExitStatus.USAGE, stderr='For input string: "x"'),
        "047": Difference("log-dirs-checked", stdout="", stderr="Error: Failed to alter dir for pay-0-1"),
        "051": Difference("reassign-json", stderr="Error: The input string is not a valid JSON"),
        "052": Difference("reassign-json", stderr="Error: The input string is not a valid JSON"),
        "069": Difference("verify-findings", status=ExitStatus.FAILED, own_words=True),
        "072": Difference(
            "throttle-zero",
            stderr="With 0 B/s nothing moves until the throttle is raised (--execute --additional) or removed.",
        ),
        "078": Difference("help", own_words=True),
        "082": Difference("unreachable", stdout="", own_words=True),
        "088": Difference("help", status=ExitStatus.OK, own_words=True),
    }
)
_JAVA = re.compile(r"^Error: (?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_ERROR = re.compile(r"^(?:Error: |Error reassigning |Cannot execute )", re.MULTILINE)
_GLUED = "None of the specified partition moves are active."
_REPLICAS = re.compile(r'"replicas":\[[\d,]*\]')


def adapt(case: Case, wanted: Expected) -> Expected:
    """A recording's stdout up to its error, and the error's first line as stderr's."""
    if case.number in ("047", "082"):
        return wanted
    stdout, error = wanted.stdout, wanted.error
    found = _ERROR.search(stdout)
    if found is not None:
        line = stdout[found.start() :].splitlines()[0]
        stdout = stdout[: found.start()]
        difference = DIFFERENCES.get(case.number)
        if difference is None or difference.stderr is None:
            error = _JAVA.sub("Error: ", line)
    return wanted._replace(stdout=stdout.replace(_GLUED, _GLUED + "\n"), error=error)


def replay(
    cases: Sequence[Case],
    directory: pathlib.Path,
    addresses: Mapping[str, str],
    log_dirs: Sequence[str],
    before: Callable[[Case], None] = lambda case: None,
    again: Callable[[Case, Ran], bool] = lambda case, ran: False,
) -> list[str]:
    """Runs cases in their order; the complaints. `before` prepares a case, `again` says that it came too early."""

    def here(text: str) -> str:
        for number, path in enumerate(log_dirs, 1):
            text = text.replace(f"LOGDIR{number}", path)
        return text

    def run(case: Case) -> Ran:
        before(case)
        transcripts.write_files(case._replace(files={name: here(text) for name, text in case.files.items()}), directory)
        words = [_addressed(word, addresses) for word in case.args]
        ran = run_kt(TOOL, *words, cwd=directory)
        while again(case, ran):
            ran = run_kt(TOOL, *words, cwd=directory)
        return ran._replace(stdout=_recorded(case, ran.out, log_dirs).encode())

    return transcripts.replay(cases, run, DIFFERENCES, _masked)


def _addressed(word: str, addresses: Mapping[str, str]) -> str:
    for name, address in addresses.items():
        word = word.replace(name, address)
    return word


def _recorded(case: Case, text: str, log_dirs: Sequence[str]) -> str:
    for number, path in enumerate(log_dirs, 1):
        text = text.replace(path, f"LOGDIR{number}")
    return _without_lots(case, text)


def _masked(case: Case, wanted: Expected) -> Expected:
    adapted = adapt(case, wanted)
    return adapted._replace(stdout=_without_lots(case, adapted.stdout))


def _without_lots(case: Case, text: str) -> str:
    """The text with the proposed replicas masked: they differ from run to run."""
    before, proposed, after = text.partition("Proposed partition reassignment configuration\n")
    if not proposed or not any("random" in one for one in case.volatile):
        return text
    return before + proposed + _REPLICAS.sub('"replicas":[...]', after)


def proposal(text: str) -> dict[tuple[str, int], list[int]]:
    """The replicas that --generate proposed."""
    found = json.loads(text.partition("Proposed partition reassignment configuration\n")[2])
    return {(part["topic"], part["partition"]): part["replicas"] for part in found["partitions"]}
