"""Moves of replicas between the directories of their brokers: how far they are, and how they are begun
(findLogDirMoveStates, executeMoves of ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import (
    Replica,
    ReplicaLogDir,
    TopicPartition,
    alter_replica_log_dirs,
    replica_log_dirs,
)
from kafkatools.core.errors import KafkaError, ReplicaNotAvailable

_PAUSE_MS = 100


class MoveState(NamedTuple):
    """A replica, the directory it shall lie in, the one it lies in, and the one it is on its way to.

    `problem`: why its broker did not tell.
    """

    replica: Replica
    target: str
    current: str | None = None
    future: str | None = None
    problem: str = ""

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way any more, as Kafka sees it (LogDirMoveState.done)."""
        return self.current is not None and self.future is None

    @property
    def is_there(self) -> bool:
        """Whether the replica lies where it shall."""
        return self.is_done and self.current == self.target

    @property
    def name(self) -> str:
        """The state in one word, for --json."""
        if self.current is None:
            return "missing"
        if self.future is not None:
            return "in_progress" if self.future == self.target else "elsewhere"
        return "completed" if self.current == self.target else "different"

    def describe(self) -> str:
        """Kafka's line (replicaMoveStatesToString)."""
        topic, partition, broker = self.replica
        if self.name == "completed":
            return f"Reassignment of replica {self.replica} completed successfully."
        if self.name == "in_progress":
            return f"Reassignment of replica {self.replica} is still in progress."
        if self.problem:
            return f"Partition {topic}-{partition} cannot be found in any live log directory on broker {broker}."
        if self.current is None:
            return (
                f"Partition {topic}-{partition} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
        if self.future is not None:
            return (
                f"Partition {topic}-{partition} on broker {broker} is being moved to log dir {self.future} instead of "
                f"{self.target}."
            )
        return (
            f"Partition {topic}-{partition} on broker {broker} is not being moved from log dir {self.current} to "
            f"{self.target}."
        )

    def row(self) -> dict[str, object]:
        """The line of --json."""
        row = {**self.replica._asdict(), "state": self.name, "log_dir": self.current}
        return row | {"future_log_dir": self.future, "target_log_dir": self.target, "error": self.problem or None}


def move_states(admin: AdminClient, wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
    """The state of each replica, by broker, topic and partition."""
    states = {}
    for replica, where in (replica_log_dirs(admin, list(wanted)) if wanted else {}).items():
        if isinstance(where, ReplicaLogDir):
            states[replica] = MoveState(replica, wanted[replica], where.current, where.future)
        else:
            states[replica] = MoveState(replica, wanted[replica], problem=str(where))
    return {replica: states[replica] for replica in sorted(states, key=by_broker)}


def by_broker(replica: Replica) -> tuple[int, str, int]:
    """Kafka's order of replicas."""
    return replica.broker, replica.topic, replica.partition


class BegunMove(NamedTuple):
    """The answer to the request to move a replica into a directory; `error` is None when the move has begun."""

    replica: Replica
    log_dir: str
    error: KafkaError | None


class BeginningMoves:
    """Moves between directories that are yet to begin.

    `waiting`: the replicas that their brokers do not have yet, with their directories; those are requested again for
    `timeout_ms`, and what is left in it after `rounds` has timed out.
    """

    def __init__(self, admin: AdminClient, requested: Mapping[Replica, str], timeout_ms: int) -> None:
        self.waiting = dict(requested)
        self._admin = admin
        self._deadline_ms = admin.clock.now_ms() + timeout_ms

    def rounds(self) -> Iterator[list[BegunMove]]:
        """Request the moves, and yield the answers of each round in Kafka's order."""
        while self.waiting:
            outcome = alter_replica_log_dirs(self._admin, self.waiting)
            answered = [one for one in outcome if not isinstance(outcome[one], ReplicaNotAvailable)]
            yield [
                BegunMove(replica, self.waiting.pop(replica), outcome[replica])
                for replica in sorted(answered, key=by_broker)
            ]
            if self.waiting:
                if self._admin.clock.now_ms() >= self._deadline_ms:
                    return
                self._admin.clock.sleep_ms(_PAUSE_MS)


def present_log_dirs(admin: AdminClient, replicas: Collection[Replica]) -> dict[Replica, str]:
    """The directories of replicas, as far as their brokers tell."""
    found = replica_log_dirs(admin, replicas)
    return {
        replica: where.current
        for replica, where in found.items()
        if isinstance(where, ReplicaLogDir) and where.current is not None
    }


def replicas_of(placement: Mapping[TopicPartition, Iterable[int]]) -> list[Replica]:
    return [
        Replica(topic, partition, broker) for (topic, partition), brokers in placement.items() for broker in brokers
    ]
