"""kt why: name the cause why a group, topic, partition, broker or transaction is stuck. Kafka has no such tool.

`tools/diagnosis` collects and judges; this module parses the subject and prints. Exit status: 0 when nothing is wrong,
3 with a verdict, 1 when nothing was found but something could not be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, client_settings, command_config

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.tools.diagnosis.observations import Subject

_KINDS = {
    "group": "NAME",
    "topic": "NAME",
    "partition": "TOPIC-NUMBER",
    "broker": "ID",
    "transaction": "TRANSACTIONAL-ID",
}
"""The kinds of subjects, each with the placeholder of its name."""
_WITH_ACLS = ("group", "topic", "partition")
_MAX_INTERVAL_S = 3600


def _interval(text: str) -> float:
    """Parse seconds from 0 to 3600, as a number or with a unit. Raises UsageError."""
    from kafkatools.options.quantities import positive_seconds

    if text.strip() in ("0", "0s"):
        return 0.0
    try:
        number = positive_seconds(text)
    except ValueError:
        number = _MAX_INTERVAL_S + 1.0
    if number > _MAX_INTERVAL_S:
        raise UsageError(f"--interval takes seconds from 0 to {_MAX_INTERVAL_S}, such as 10 or 500ms, not '{text}'")
    return number


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt why. Returns FINDINGS with a verdict, FAILED if something could not be seen. Raises UsageError,
    CommandError for a subject that does not exist, and KafkaError."""
    subject = _subject(args.operands)
    if args.principal is not None and ":" not in args.principal:
        raise UsageError(f"--principal takes TYPE:NAME such as User:alice, not '{args.principal}'")
    if args.principal is not None and subject.kind not in _WITH_ACLS:
        raise UsageError(f"--principal is for a {', '.join(_WITH_ACLS[:-1])} or {_WITH_ACLS[-1]}")
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.tools.diagnosis.answer import (
        answer_lines,
        command_line,
        default_interval_s,
        needs_time,
        unseen_lines,
    )
    from kafkatools.tools.diagnosis.collecting import TIMEOUT_MS, Collecting
    from kafkatools.tools.diagnosis.verdict import verdicts

    defaults = {"default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": str(TIMEOUT_MS)}
    settings = defaults | client_settings(args)
    bootstrap = console.connect(args)
    interval_s = args.interval if args.interval is not None else default_interval_s(subject)
    with Collecting(
        lambda: AdminClient(bootstrap, settings, console.clock), subject, args.principal or ""
    ) as collecting:
        obs = collecting.collect()
        found = verdicts(obs)
        if interval_s and not found and needs_time(obs):
            with console.progress("Waiting for a second snapshot"):
                console.clock.sleep_ms(int(interval_s * 1000))
            obs = collecting.collect()
            found = verdicts(obs)

    def line(words: Sequence[str]) -> str:
        profile = None if args.profile is None else args.profile.name
        return command_line(words, bootstrap, args.command_config, profile)

    if args.json:
        from kafkatools.tools.diagnosis.json_form import why_json

        console.print_json(why_json(obs, found, line))
    else:
        for text in answer_lines(obs, found, line):
            console.print(text)
        for text in unseen_lines(obs, found):
            console.error(text)
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
        hint = f"Did you mean {similar[0]}?" if similar else f"Write the kind first, such as kt why topic {kind}."
        raise UsageError(f"Unknown kind '{kind}': kt why takes {', '.join(_KINDS)}, or nothing", hint)
    if len(operands) < 2 or not operands[1]:
        raise UsageError(f"The name is missing: kt why {kind} {_KINDS[kind]}")
    name = operands[1]
    if kind == PARTITION:
        topic, _, number = name.rpartition("-")
        if not topic or not (number.isascii() and number.isdigit()):
            raise UsageError(f"'{name}' is not a partition: write TOPIC-NUMBER, such as orders-0")
        return Subject(kind, topic, int(number))
    if kind == BROKER and not (name.isascii() and name.isdigit()):
        raise UsageError(f"'{name}' is not a broker: write its id, such as 2")
    return Subject(kind, str(int(name)) if kind == BROKER else name)


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
