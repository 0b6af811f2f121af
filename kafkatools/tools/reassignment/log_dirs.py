"""Replica moves between log directories: states and requests (findLogDirMoveStates, executeMoves of
ReassignPartitionsCommand)."""

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
    """A replica with its target, current and future log directory. `problem` is the error of its broker, "" without
    one."""

    replica: Replica
    target: str
    current: str | None = None
    future: str | None = None
    problem: str = ""

    @property
    def is_done(self) -> bool:
        """Return whether the replica has a directory and no move is in progress (LogDirMoveState.done)."""
        return self.current is not None and self.future is None

    @property
    def is_there(self) -> bool:
        """Return whether the replica is in its target directory and no move is in progress."""
        return self.is_done and self.current == self.target

    @property
    def name(self) -> str:
        """The state for --json: missing, in_progress, elsewhere, completed or different."""
        if self.current is None:
            return "missing"
        if self.future is not None:
            return "in_progress" if self.future == self.target else "elsewhere"
        return "completed" if self.current == self.target else "different"

    def describe(self) -> str:
        """Kafka's line for the state (replicaMoveStatesToString)."""
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
        """The state as a JSON object."""
        row = {**self.replica._asdict(), "state": self.name, "log_dir": self.current}
        return row | {"future_log_dir": self.future, "target_log_dir": self.target, "error": self.problem or None}


def move_states(admin: AdminClient, targets: Mapping[Replica, str]) -> dict[Replica, MoveState]:
    """The state of each replica's move, in order of broker, topic and partition. The error of a broker is in `problem`
    of its replicas."""
    states = {}
    for replica, log_dirs in (replica_log_dirs(admin, list(targets)) if targets else {}).items():
        if isinstance(log_dirs, ReplicaLogDir):
            states[replica] = MoveState(replica, targets[replica], log_dirs.current, log_dirs.future)
        else:
            states[replica] = MoveState(replica, targets[replica], problem=str(log_dirs))
    return {replica: states[replica] for replica in sorted(states, key=by_broker)}


def by_broker(replica: Replica) -> tuple[int, str, int]:
    """The sort key of Kafka's order of replicas: broker, topic, partition."""
    return replica.broker, replica.topic, replica.partition


class BegunMove(NamedTuple):
    """The response to the request to move a replica to a log directory; `error` is None if the move has begun."""

    replica: Replica
    log_dir: str
    error: KafkaError | None


class BeginningMoves:
    """Requests to move replicas to log directories, repeated while brokers do not have the replicas yet. `waiting` are
    the replicas to request, with their directories. Those left in it after `rounds` have timed out after
    `timeout_ms`."""

    def __init__(self, admin: AdminClient, requested: Mapping[Replica, str], timeout_ms: int) -> None:
        self.waiting = dict(requested)
        self._admin = admin
        self._deadline_ms = admin.clock.now_ms() + timeout_ms

    def rounds(self) -> Iterator[list[BegunMove]]:
        """Request the moves until all are answered or timed out. Yields each round's responses in Kafka's order, an
        empty list if every broker lacks its replica. Removes the answered replicas from `waiting`."""
        while self.waiting:
            outcome = alter_replica_log_dirs(self._admin, self.waiting)
            results = [replica for replica in outcome if not isinstance(outcome[replica], ReplicaNotAvailable)]
            yield [
                BegunMove(replica, self.waiting.pop(replica), outcome[replica])
                for replica in sorted(results, key=by_broker)
            ]
            if self.waiting:
                if self._admin.clock.now_ms() >= self._deadline_ms:
                    return
                self._admin.clock.sleep_ms(_PAUSE_MS)


def present_log_dirs(admin: AdminClient, replicas: Collection[Replica]) -> dict[Replica, str]:
    """The current log directory of each replica whose broker reports one; other replicas are left out."""
    reported = replica_log_dirs(admin, replicas)
    return {
        replica: log_dirs.current
        for replica, log_dirs in reported.items()
        if isinstance(log_dirs, ReplicaLogDir) and log_dirs.current is not None
    }


def replicas_of(placement: Mapping[TopicPartition, Iterable[int]]) -> list[Replica]:
    """A `Replica` for each partition and broker."""
    return [
        Replica(topic, partition, broker) for (topic, partition), brokers in placement.items() for broker in brokers
    ]
