"""kt reassign-partitions --generate: propose new replicas for all partitions of topics (generateAssignment).

Replicas are placed as for a new topic, at random over racks and brokers (`core/replica_placement`), whatever the
current ones are. So every partition may move. Nothing is changed.
"""

from __future__ import annotations

from kafkatools.commands.reassign_partitions.session import open_session
from kafkatools.console import Console
from kafkatools.core.admin.reassignments import partitions_of
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.options.broker_ids import BROKER_LIST_FORM, broker_id
from kafkatools.tools.reassignment.log_dirs import present_log_dirs, replicas_of
from kafkatools.tools.reassignment.plan_file import plan_fields, plan_text, read_topics
from kafkatools.tools.reassignment.proposal import propose, usable_brokers


def run(console: Console, args: Args) -> ExitStatus:
    """Print the current replicas of topics and a proposal. Raises UsageError or CommandError."""
    brokers_to_use = _broker_list(args.broker_list)
    topics = read_topics(args.topics_to_move_json_file)
    with open_session(console, args) as session:
        partitions = partitions_of(session.admin, topics)
        current = {part: description.replicas for part, description in partitions.items()}
        brokers = usable_brokers(session.admin, brokers_to_use, is_rack_aware=not args.disable_rack_aware)
        proposed = propose(current, brokers, session.console.note)
        log_dirs = present_log_dirs(session.admin, replicas_of(current))
        session.print_json({"current": plan_fields(current, log_dirs), "proposed": plan_fields(proposed, {})})
        for line in ("Current partition replica assignment", plan_text(current, log_dirs), ""):
            session.print(line)
        session.print("Proposed partition reassignment configuration")
        session.print(plan_text(proposed, {}))
    return ExitStatus.OK


def _broker_list(text: str) -> list[int]:
    """Parse the broker ids of --broker-list. A comma at the end is ignored, as by Java's split.

    Raises UsageError for text, CommandError for duplicates.
    """
    brokers = [broker_id(part, BROKER_LIST_FORM) for part in text.rstrip(",").split(",")]
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        raise CommandError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers
