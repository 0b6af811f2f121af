"""--generate: new replicas for all partitions of topics, placed as for a new topic (generateAssignment).

What is there now is not looked at: every partition may move. Replicas are spread over racks and brokers by lot
(`core/replica_placement`). Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.reassign_partitions.session import Session, ids, plural, present_log_dirs, replicas_of, session
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, java_int
from kafkatools.tools.reassignment.plan_file import plan_fields, plan_text, read_topics

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.reassignments import TopicPartition
    from kafkatools.core.replica_placement import UsableBroker

_NO_RACK = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)


def run(console: Console, args: Args) -> ExitStatus:
    """Prints the present replicas of topics and proposes others."""
    wanted = _broker_list(args.broker_list)
    topics = read_topics(args.topics_to_move_json_file)
    with session(console, args) as opened:
        from kafkatools.core.admin.reassignments import partitions_of

        partitions = partitions_of(opened.admin, topics)
        current = {part: found.replicas for part, found in partitions.items()}
        brokers = _brokers(opened, wanted)
        proposed = _propose(opened, current, brokers)
        log_dirs = present_log_dirs(opened.admin, replicas_of(current))
        opened.print_json({"current": plan_fields(current, log_dirs), "proposed": plan_fields(proposed, {})})
        for line in ("Current partition replica assignment", plan_text(current, log_dirs), ""):
            opened.print(line)
        opened.print("Proposed partition reassignment configuration")
        opened.print(plan_text(proposed, {}))
    return ExitStatus.OK


def _broker_list(text: str) -> list[int]:
    """The ids; a comma at the end is none, as with Java's split."""
    parts = text.rstrip(",").split(",")
    brokers = []
    for part in parts:
        try:
            brokers.append(java_int(part))
        except ValueError:
            raise UsageError(f'For input string: "{part}"') from None
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        raise CommandError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


def _brokers(opened: Session, wanted: Sequence[int]) -> list[UsableBroker]:
    """The brokers that may get replicas, with their racks unless those do not matter."""
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.core.replica_placement import UsableBroker

    nodes = {node.id: node for node in describe_cluster(opened.admin).nodes}
    unknown = sorted(set(wanted) - set(nodes))
    if unknown:
        raise CommandError(
            f"Unknown broker id{plural(len(unknown))} {ids(unknown)}",
            hint=f"The live brokers are {ids(sorted(nodes))}.",
        )
    if opened.args.disable_rack_aware:
        return [UsableBroker(broker) for broker in nodes if broker in wanted]
    brokers = [UsableBroker(node.id, node.rack) for node in nodes.values() if node.id in wanted]
    if len({broker.rack is None for broker in brokers}) > 1:
        raise CommandError(_NO_RACK)
    return brokers


def _propose(
    opened: Session, current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[UsableBroker]
) -> dict[TopicPartition, list[int]]:
    """Replicas for each topic, as many as its first partition in Kafka's order has (calculateAssignment)."""
    from kafkatools.core.java.random import JavaRandom
    from kafkatools.core.replica_placement import place

    by_topic: dict[str, list[Sequence[int]]] = {}
    for topic, partition in hash_order(current, partition_hash):
        by_topic.setdefault(topic, []).append(current[topic, partition])
    random = JavaRandom()
    proposed: dict[TopicPartition, list[int]] = {}
    for topic, present in by_topic.items():
        if len({len(replicas) for replicas in present}) > 1:
            opened.note(
                f"The partitions of {topic} have different numbers of replicas; all are to get {len(present[0])}."
            )
        placed = place(brokers, len(present), len(present[0]), random)
        proposed.update({(topic, partition): replicas for partition, replicas in enumerate(placed)})
    return proposed
