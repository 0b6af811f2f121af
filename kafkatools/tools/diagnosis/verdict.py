"""Find the causes that hold, leave out those that are consequences of others, and choose the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.tools.diagnosis.causes import CAUSES
from kafkatools.tools.diagnosis.findings import Cause, Finding, Place, count
from kafkatools.tools.diagnosis.observations import Observations

_MAX_LINES = 3


class Verdict(NamedTuple):
    """A cause that holds. `finding` is its first one; its evidence includes consequences and further places."""

    cause: Cause
    finding: Finding


def verdicts(obs: Observations, causes: Sequence[Cause] = CAUSES) -> list[Verdict]:
    """Return the causes that hold, the verdict first, each once. A finding that another one explains is a line of its
    evidence. The order is that of `causes`. The time is linear in the number of findings."""
    found = [
        Verdict(cause, finding) for cause in causes if obs.subject.kind in cause.kinds for finding in cause.find(obs)
    ]
    explained = _explained(found)
    by_cause: dict[str, list[Verdict]] = {}
    for item in found:
        if item.finding.places.isdisjoint(explained.get(item.cause.id, ())):
            by_cause.setdefault(item.cause.id, []).append(item)
    return [_merged(items, found) for items in by_cause.values()]


def _explained(roots: Sequence[Verdict]) -> dict[str, set[Place]]:
    """Return, by cause, the places at which one of these findings explains it."""
    explained: dict[str, set[Place]] = {}
    for root in roots:
        for cause in root.cause.explains:
            explained.setdefault(cause, set()).update(root.finding.places)
    return explained


def _merged(roots: Sequence[Verdict], found: Sequence[Verdict]) -> Verdict:
    """Return the first finding of a cause, with the others of the same cause and their consequences as evidence."""
    first = roots[0]
    explained = _explained(roots)
    others = [item.finding.sentence for item in roots[1:]]
    consequences = [
        item.finding.sentence
        for item in found
        if item.cause.id in explained and not item.finding.places.isdisjoint(explained[item.cause.id])
    ]
    lines = (*first.finding.evidence, *_lines("Also", others), *_lines("Consequence", consequences))
    return Verdict(first.cause, first.finding._replace(evidence=lines))


def _lines(label: str, sentences: Sequence[str]) -> list[str]:
    lines = [f"{label}: {sentence}" for sentence in sentences[:_MAX_LINES]]
    more = len(sentences) - _MAX_LINES
    return [*lines, f"{label}: {count(more, 'more finding')} of this kind"] if more > 0 else lines
