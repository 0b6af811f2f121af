"""Replication throttles of reassignments: set by --execute, removed by --verify and --cancel.

Follows modifyReassignmentThrottle and clearAllThrottles of ReassignPartitionsCommand. A broker or topic that fails is
named on stderr, and the others are changed. Kafka's tool stops at the first failure and leaves the other throttles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafkatools.commands.reassign_partitions.session import Session
from kafkatools.core.admin.reassignments import TopicPartition
from kafkatools.core.admin.replication_throttles import (
    PartitionMove,
    brokers_of,
    clear_broker_throttles,
    clear_topic_throttles,
    set_broker_throttles,
    set_log_dir_throttles,
    set_replica_throttles,
)
from kafkatools.core.errors import BrokerNotAvailable, KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import int_hash
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.reassignment.listings import ids, plural

RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


def set_throttle(session: Session, moves: Mapping[TopicPartition, PartitionMove], rate: int) -> bool:
    """Limit replication between brokers, in bytes per second. Returns False when a topic or broker failed.

    A broker that is not running gets no throttle, which is no failure.
    """
    if not _all_changed(session, "topic", set_replica_throttles(session.admin, moves)):
        return False
    outcome = set_broker_throttles(session.admin, brokers_of(moves), rate)
    for broker in [broker_id for broker_id, error in outcome.items() if isinstance(error, BrokerNotAvailable)]:
        session.console.note(f"Broker {broker} is not running and gets no throttle.")
        del outcome[broker]
    if not _all_changed(session, "broker", outcome):
        return False
    session.print(f"The inter-broker throttle limit was set to {rate} B/s")
    if rate == 0:
        session.console.note(
            "With 0 B/s nothing moves until the throttle is raised (--execute --additional) or removed."
        )
    return True


def set_log_dir_throttle(session: Session, brokers: Collection[int], rate: int) -> bool:
    """Limit moves between log directories, in bytes per second. Returns False when a broker failed."""
    if not _all_changed(session, "broker", set_log_dir_throttles(session.admin, sorted(brokers), rate)):
        return False
    session.print(f"The replica-alter-dir throttle limit was set to {rate} B/s")
    return True


def _all_changed(
    session: Session, kind: str, outcome: Mapping[int, KafkaError | None] | Mapping[str, KafkaError | None]
) -> bool:
    """Print the errors of brokers or topics. Returns whether there is none."""
    failed = [(name, error) for name, error in outcome.items() if error is not None]
    for name, error in failed:
        session.complain(f"The throttle of {kind} {name} could not be changed: {error}", error.name, **{kind: name})
    return not failed


def take_back(session: Session, topics: Sequence[str], brokers: Collection[int]) -> None:
    """Remove the throttles that --execute has set when no move started, from topics and running brokers. Failures are
    printed."""
    live = sorted(set(brokers) & set(session.admin.brokers()))
    if _clear(session, live, topics):
        session.console.note("The throttles were removed again.")


def clear_all(session: Session, topics: Sequence[str], broker_ids: Collection[int]) -> ExitStatus:
    """Remove the throttles of topics, of all running brokers and of the brokers in `broker_ids`, and print them.
    Returns FAILED if one could not be removed.

    Through controllers only the brokers in `broker_ids` are changed, since controllers do not list brokers.
    """
    present = [] if session.admin.through_controllers else session.admin.brokers()
    brokers = hash_order([*present, *sorted(broker_ids)], int_hash)
    names = hash_order(topics)
    session.print(f"Clearing broker-level throttles on broker{plural(len(brokers))} {ids(brokers)}")
    session.print(f"Clearing topic-level throttles on topic{plural(len(names))} {','.join(names)}")
    session.print_json({"throttles_cleared": {"brokers": sorted(brokers), "topics": sorted(names)}})
    return ExitStatus.OK if _clear(session, brokers, names) else ExitStatus.FAILED


def clear_topics(session: Session, topics: Sequence[str]) -> ExitStatus:
    """Remove the lists of throttled replicas from topics, and print the topics. The rates of brokers stay. Returns
    FAILED if a topic failed."""
    names = hash_order(topics)
    if not names:
        return ExitStatus.OK
    text = f"Clearing topic-level throttles on topic{plural(len(names))} {','.join(names)}"
    session.console.print(text, {"throttles_cleared": {"brokers": [], "topics": sorted(names)}})
    return ExitStatus.OK if _clear(session, (), names) else ExitStatus.FAILED


def _clear(session: Session, brokers: Collection[int], topics: Collection[str]) -> bool:
    are_cleared = _all_changed(session, "broker", clear_broker_throttles(session.admin, brokers))
    return _all_changed(session, "topic", clear_topic_throttles(session.admin, topics)) and are_cleared
