"""The answer of a diagnosis as lines of text, and the need for a second snapshot. Printed by `kt why` and shown by
`kt monitor`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence

from kafkatools.tools.diagnosis.findings import count
from kafkatools.tools.diagnosis.group_causes import commit_lines, has_no_offsets, lag_text
from kafkatools.tools.diagnosis.observations import GROUP, PARTITION, TOPIC, Observations, Subject
from kafkatools.tools.diagnosis.verdict import Verdict

_GROUP_INTERVAL_S = 6.0


def default_interval_s(subject: Subject) -> float:
    """Return the seconds between the two snapshots of a subject; 0 if one is enough."""
    return _GROUP_INTERVAL_S if subject.kind == GROUP else 0.0


def needs_time(obs: Observations) -> bool:
    """Return whether a second snapshot could show more: a group has lag, members to wait for or none of their offsets,
    or pending offsets; or the growth of a topic."""
    return bool(obs.pending or obs.subject.kind in (TOPIC, PARTITION)) or any(
        obs.lagging(group)
        or group.state not in ("Stable", "Empty", "Dead")
        or (obs.subject.kind == GROUP and has_no_offsets(group) and group.members)
        for group in obs.view.groups
    )


def command_line(words: Sequence[str], bootstrap: str, command_config: str | None, profile: str | None) -> str:
    """Return a command line of kt to paste into a shell, with the options of the present connection."""
    connection = ["--bootstrap-server", bootstrap]
    if command_config is not None:
        connection += ["--command-config", command_config]
    before = ["--profile", profile] if profile is not None else []
    return shlex.join(["kt", *before, words[0], *connection, *words[1:]])


def answer_lines(obs: Observations, found: Sequence[Verdict], line: Callable[[Sequence[str]], str]) -> list[str]:
    """Return the answer as lines: the verdict, its evidence, the next command, and other verdicts. `line` completes the
    words of a command."""
    if not found:
        groups = obs.view.groups if obs.subject.kind == GROUP else ()
        text = "No problem found in what was visible" if obs.unknown else "No problem found"
        lines = [f"{text}: {obs.subject.text}.", *(f"  {lag_text(obs, group)}." for group in groups)]
        lines += [f"  {text}." for text in commit_lines(obs)]
        if obs.principal and obs.acls is None and not any(text.startswith("ACLs: ") for text in obs.unknown):
            lines.append(f"  The cluster has no authorizer, so no ACL limits {obs.principal}.")
        lagging = [group for group in obs.view.groups if group.least_lag] if not groups and obs.earlier is None else []
        if lagging:
            counted = f"{len(lagging)} of {count(len(obs.view.groups), 'group')}"
            lines.append(f"  Lag in {counted}; with --interval 10 kt why also finds those that commit no offsets.")
        return lines
    lines = [f"{found[0].finding.sentence}.", *(f"  {text}" for text in found[0].finding.evidence)]
    lines += [f"What to do: {found[0].cause.remedy}", *_commands(found[0], line)]
    for other in found[1:]:
        lines += [f"Also: {other.finding.sentence}.", *(f"  {text}" for text in _commands(other, line))]
    return lines


def unseen_lines(obs: Observations, found: Sequence[Verdict]) -> list[str]:
    """Return a line for each thing that could not be seen, without those that are evidence of a verdict already."""
    evidence = {text for verdict in found for text in verdict.finding.evidence}
    return [f"Could not see: {text}" for text in obs.unknown if not _is_in(text, evidence)]


def _is_in(text: str, evidence: Collection[str]) -> bool:
    return text in evidence or text.partition(": ")[2] in evidence


def _commands(verdict: Verdict, line: Callable[[Sequence[str]], str]) -> list[str]:
    then = [f"Then: {line(verdict.finding.then)}"] if verdict.finding.then else []
    return [f"Next: {line(verdict.finding.command)}", *then]
