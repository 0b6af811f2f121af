"""The JSON object of `kt why --json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.tools.diagnosis.group_causes import has_progressed
from kafkatools.tools.diagnosis.observations import GROUP, Observations
from kafkatools.tools.diagnosis.verdict import Verdict

Line = Callable[[Sequence[str]], str]


def verdict_json(verdict: Verdict, command_line: Line) -> dict[str, object]:
    """Return a verdict with its next command as a line to paste."""
    return {
        "cause": verdict.cause.id,
        "title": verdict.cause.title,
        "sentence": verdict.finding.sentence,
        "evidence": list(verdict.finding.evidence),
        "command": command_line(verdict.finding.command),
        "then": command_line(verdict.finding.then) if verdict.finding.then else None,
        "page": verdict.cause.page,
    }


def why_json(obs: Observations, verdicts: Sequence[Verdict], command_line: Line) -> dict[str, object]:
    """Return the whole answer. `healthy` is null if nothing was found but something could not be seen."""
    healthy = False if verdicts else None if obs.unknown else True
    rows = [verdict_json(verdict, command_line) for verdict in verdicts]
    return {
        "kind": obs.subject.kind,
        "name": obs.subject.name or None,
        "partition": obs.subject.partition if obs.subject.partition >= 0 else None,
        "healthy": healthy,
        "verdict": rows[0] if rows else None,
        "others": rows[1:],
        "lag": _lag(obs),
        "seconds": obs.seconds,
        "unknown": list(obs.unknown),
    }


def _lag(obs: Observations) -> dict[str, object] | None:
    """Return the lag of the group that was asked about; the change is null with one snapshot."""
    if obs.subject.kind != GROUP or not obs.view.groups:
        return None
    group = obs.view.groups[0]
    before = obs.before(group.group_id)
    is_known = before is not None and before.is_lag_known and group.is_lag_known and bool(group.partitions)
    change = group.least_lag - before.least_lag if is_known and before is not None else None
    return {
        "records": group.least_lag if group.is_lag_known and group.partitions else None,
        "change": change,
        "per_second": change / obs.seconds if change is not None and obs.seconds else None,
        "committing": None if before is None else has_progressed(obs, group),
        "last_commit_ms": None if obs.commits is None else obs.commits.last_ms(),
    }
