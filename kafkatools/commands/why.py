"""kt why: name the cause why a group, topic, partition, broker or transaction is stuck. Kafka has no such tool.

`tools/diagnosis` collects and judges; this module parses the subject and prints. Exit status: 0 when nothing is wrong,
3 with a verdict, 1 when nothing was found but something could not be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, client_settings, command_config

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.tools.diagnosis.observations import Observations, Subject
    from kafkatools.tools.diagnosis.verdict import Verdict

_KINDS = ("group", "topic", "partition", "broker", "transaction")
_GROUP_INTERVAL_S = 6.0
_MAX_INTERVAL_S = 3600


def _interval(text: str) -> float:
    """Parse seconds from 0 to 3600, as a number or with a unit. Raises ValueError."""
    from kafkatools.options.quantities import positive_seconds

    if text.strip() in ("0", "0s"):
        return 0.0
    number = positive_seconds(text)
    if number > _MAX_INTERVAL_S:
        raise ValueError(text)
    return number


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt why. Returns FINDINGS with a verdict, FAILED if something could not be seen. Raises UsageError,
    CommandError for a subject that does not exist, and KafkaError."""
    subject = _subject(args.operands)
    if args.principal is not None and ":" not in args.principal:
        raise UsageError(f"--principal takes TYPE:NAME such as User:alice, not '{args.principal}'")
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.tools.diagnosis.collecting import TIMEOUT_MS, Collecting
    from kafkatools.tools.diagnosis.verdict import verdicts

    defaults = {"default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": str(TIMEOUT_MS)}
    settings = defaults | client_settings(args)
    bootstrap = console.connect(args)
    interval_s = args.interval if args.interval is not None else _GROUP_INTERVAL_S * (subject.kind == "group")
    with Collecting(
        lambda: AdminClient(bootstrap, settings, console.clock), subject, args.principal or ""
    ) as collecting:
        obs = collecting.collect()
        found = verdicts(obs)
        if interval_s and not found and _needs_time(obs):
            with console.progress("Waiting for a second snapshot"):
                console.clock.sleep_ms(int(interval_s * 1000))
            obs = collecting.collect()
            found = verdicts(obs)

    def line(words: Sequence[str]) -> str:
        return _command_line(words, bootstrap, args)

    if args.json:
        from kafkatools.tools.diagnosis.json_form import why_json

        console.print_json(why_json(obs, found, line))
    else:
        for text in _lines(obs, found, line):
            console.print(text)
        for text in obs.unknown:
            console.error(f"Could not see: {text}")
    return ExitStatus.FINDINGS if found else ExitStatus.FAILED if obs.unknown else ExitStatus.OK


def _subject(operands: Sequence[str]) -> Subject:
    """Return the subject that the operands name. Raises UsageError."""
    from kafkatools.tools.diagnosis.observations import BROKER, CLUSTER, PARTITION, Subject

    if not operands:
        return Subject(CLUSTER)
    kind = operands[0]
    if kind not in _KINDS:
        import difflib

        similar = difflib.get_close_matches(kind, _KINDS, 1)
        hint = f"Did you mean {similar[0]}?" if similar else ""
        raise UsageError(f"Unknown kind '{kind}': kt why takes {', '.join(_KINDS)}, or nothing", hint)
    if len(operands) < 2 or not operands[1]:
        raise UsageError(f"The name is missing: kt why {kind} {'TOPIC-NUMBER' if kind == PARTITION else 'NAME'}")
    name = operands[1]
    if kind == PARTITION:
        topic, _, number = name.rpartition("-")
        if not topic or not (number.isascii() and number.isdigit()):
            raise UsageError(f"'{name}' is not a partition: write TOPIC-NUMBER, such as orders-0")
        return Subject(kind, topic, int(number))
    if kind == BROKER and not (name.isascii() and name.isdigit()):
        raise UsageError(f"'{name}' is not a broker: write its id, such as 2")
    return Subject(kind, str(int(name)) if kind == BROKER else name)


def _needs_time(obs: Observations) -> bool:
    """Return whether a second snapshot could show more: a group has lag, members to wait for, or pending offsets."""
    return bool(obs.pending) or any(
        obs.lagging(group) or group.state not in ("Stable", "Empty", "Dead") for group in obs.view.groups
    )


def _command_line(words: Sequence[str], bootstrap: str, args: Args) -> str:
    """Return a command line of kt to paste into a shell, with the connection of this one."""
    import shlex

    connection = ["--bootstrap-server", bootstrap]
    if args.command_config is not None:
        connection += ["--command-config", args.command_config]
    profile = ["--profile", args.profile.name] if args.profile is not None else []
    return shlex.join(["kt", *profile, words[0], *connection, *words[1:]])


def _lines(obs: Observations, found: Sequence[Verdict], line: Callable[[Sequence[str]], str]) -> list[str]:
    """Return the answer as lines: the verdict, its evidence, the next command, and other verdicts."""
    from kafkatools.tools.diagnosis.findings import count
    from kafkatools.tools.diagnosis.group_causes import lag_text

    if not found:
        groups = obs.view.groups if obs.subject.kind == "group" else ()
        text = "No cause found" if obs.unknown else "Nothing is stuck"
        lines = [f"{text}: {obs.subject.text}.", *(f"  {lag_text(obs, group)}." for group in groups)]
        lagging = [group for group in obs.view.groups if group.least_lag] if not groups and obs.earlier is None else []
        if lagging:
            counted = f"{len(lagging)} of {count(len(obs.view.groups), 'group')}"
            lines.append(
                f"  Lag in {counted}; whether offsets are committed is unknown with one snapshot (--interval)."
            )
        return lines
    lines = [f"{found[0].finding.sentence}.", *(f"  {text}" for text in found[0].finding.evidence)]
    lines += [f"What to do: {found[0].cause.remedy}", f"Next: {line(found[0].finding.command)}"]
    for other in found[1:]:
        lines += [f"Also: {other.finding.sentence}.", f"  Next: {line(other.finding.command)}"]
    return lines


OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config(),
    Option(
        "--interval",
        "Seconds between two snapshots, which show whether lag grows and offsets are committed; 0 for one snapshot. "
        "Default: 6 for a group, otherwise 0.",
        value="SECONDS",
        type=_interval,
    ),
    Option(
        "--principal",
        "Check the ACLs of this principal, such as User:alice, for a group, topic or partition.",
        value="PRINCIPAL",
    ),
)

COMMAND = Command(
    "why",
    "Name the cause why a group, topic, partition, broker or transaction is stuck.",
    tuple(option._replace(ours=True) for option in OPTIONS),
    run,
    needs_arguments=False,
    operand="[KIND] [NAME]",
    examples=(
        "kt why",
        "kt why group shop --bootstrap-server broker1:9092",
        "kt why topic orders",
        "kt why partition orders-0",
        "kt why broker 2",
        "kt why transaction copy-1",
        "kt why group shop --principal User:alice --json",
    ),
)
