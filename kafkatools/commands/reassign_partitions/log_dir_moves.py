"""Moves of replicas between the directories of their brokers: how far they are, and how they are begun
(findLogDirMoveStates, executeMoves of ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.commands.reassign_partitions.session import Session, plural
from kafkatools.exit_status import ExitStatus

if TYPE_CHECKING:
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.reassignments import Replica

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

    def row(self) -> dict[str, Any]:
        """The line of --json."""
        row = {**self.replica._asdict(), "state": self.name, "log_dir": self.current}
        return row | {"future_log_dir": self.future, "target_log_dir": self.target, "error": self.problem or None}


def move_states(admin: AdminClient, wanted: Mapping[Replica, str]) -> dict[Replica, MoveState]:
    """The state of each replica, by broker, topic and partition."""
    from kafkatools.core.admin.reassignments import ReplicaLogDir, replica_log_dirs

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


def begin_moves(opened: Session, wanted: Mapping[Replica, str], timeout_ms: int) -> ExitStatus:
    """Begins moves between directories.

    A broker that has no such replica yet is asked again until it has, but not longer than so.
    """
    from kafkatools.core.admin.reassignments import alter_replica_log_dirs
    from kafkatools.core.errors import ReplicaNotAvailable

    clock = opened.admin.clock
    deadline_ms = clock.now_ms() + timeout_ms
    waiting = dict(wanted)
    status = ExitStatus.OK
    while waiting:
        outcome = alter_replica_log_dirs(opened.admin, waiting)
        for replica in sorted(outcome, key=by_broker):
            error = outcome[replica]
            if isinstance(error, ReplicaNotAvailable):
                continue
            path = waiting.pop(replica)
            row = {**replica._asdict(), "log_dir": path}
            if error is None:
                opened.print(
                    f"Successfully started moving log directory to {path} for replica {replica.topic}-"
                    f"{replica.partition} with broker {replica.broker} "
                )
                opened.print_json(row | {"outcome": "started"})
            else:
                status = opened.complain(f"Error: Failed to alter dir for {replica}: {error}", error.name, **row)
        if waiting and clock.now_ms() >= deadline_ms:
            listed = ",".join(str(replica) for replica in sorted(waiting, key=by_broker))
            return opened.complain(
                f"Timed out before log directory move{plural(len(waiting))} could be started for: {listed}"
            )
        if waiting:
            opened.console.flush()
            clock.sleep_ms(_PAUSE_MS)
    return status
