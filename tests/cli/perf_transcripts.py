"""Replays recordings of the performance and verifiable tools: their numbers change, the form of a line does not."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence

import transcripts
from support.kt import Ran, run_kt
from transcripts import Adapt, Case, Difference, Expected

_TIME = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}\b")
_CLOCK = re.compile(r"\b\d\d:\d\d\b")
_JAVA_DOUBLE = re.compile(r"\t\d+\.\d+(?:E-?\d+)?$", re.MULTILINE)
_DECIMAL = re.compile(r"\b(?:NaN|Infinity|\d+\.(\d+))\b")
_WHOLE = re.compile(r"\b\d+\b(?! records sent, N\.#{6})(?! steady state records)")
_METRICS = re.compile(r"(\nMetric Name +Value\n)(?:[^\n]+ : [^\n]+\n)+")
_MOVED = re.compile(
    r"^(?:Option --\S+ has been deprecated|Warning: --\S+ is deprecated|WARNING: Positional argument|WARNING: Exiting)"
)


def form(text: str) -> str:
    """Numbers as N, with their digits behind the point; counts of records sent in all stay. Metrics as one line."""
    text = _METRICS.sub(r"\nMETRICS\n", text)
    text = _JAVA_DOUBLE.sub("\tDOUBLE", _TIME.sub("TIME", text))
    text = _DECIMAL.sub(lambda match: "N." + "#" * len(match[1]) if match[1] else match[0], _CLOCK.sub("TIME", text))
    return _WHOLE.sub("N", text)


def event_form(text: str) -> str:
    """Events without their times and rates."""
    return re.sub(r'("timestamp":)\d+|("avg_throughput":)\d+\.\d+', lambda match: (match[1] or match[2]) + "N", text)


def move_warnings(case: Case, wanted: Expected) -> Expected:
    """Warnings that Kafka prints on stdout are looked for on stderr; argparse4j's breaks inside an option's name go."""
    lines = wanted.stdout.splitlines(keepends=True)
    moved = [line.rstrip("\n") for line in lines if _MOVED.match(line)]
    error = moved[0] if moved else wanted.error
    stdout = "".join(line for line in lines if not _MOVED.match(line))
    return wanted._replace(stdout=stdout, error=None if error is None else error.replace("-- ", "--"))


def failures(
    tool: str,
    bootstrap: str,
    directory: pathlib.Path,
    differences: Mapping[str, Difference],
    *,
    shown: Callable[[str], str] = form,
    not_here: Collection[str] = (),
    words: Callable[[Case], Sequence[str]] = lambda case: case.args,
    adapt: Adapt | None = None,
) -> list[str]:
    """Replays a tool's recordings; the complaints."""

    def run(case: Case) -> Ran:
        transcripts.write_files(case, directory)
        given = [word.replace("UNREACHABLE", "127.0.0.1:9").replace("BOOTSTRAP", bootstrap) for word in words(case)]
        ran = run_kt(tool, *given, cwd=directory)
        text = ran.out.replace(f"{directory}/", "")
        return ran._replace(stdout=shown(text).encode())

    def expect(case: Case, wanted: Expected) -> Expected:
        wanted = move_warnings(case, wanted if adapt is None else adapt(case, wanted))
        return wanted._replace(stdout=shown(wanted.stdout))

    cases = [case for case in transcripts.load(tool) if case.number not in not_here]
    return transcripts.replay(cases, run, differences, expect)
