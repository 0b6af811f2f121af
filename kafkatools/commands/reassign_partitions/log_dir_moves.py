"""Start moves between log directories and print them (ReassignPartitionsCommand.executeMoves)."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.session import Session
from kafkatools.core.admin.reassignments import Replica
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.reassignment.listings import plural
from kafkatools.tools.reassignment.log_dirs import BeginningMoves, BegunMove, by_broker


def begin_moves(opened: Session, requested: Mapping[Replica, str], timeout_ms: int) -> ExitStatus:
    """Start moves between log directories and print each. Returns FAILED if one was refused or timed out."""
    moves = BeginningMoves(opened.admin, requested, timeout_ms)
    status = ExitStatus.OK
    for begun in moves.rounds():
        for move in begun:
            status = max(status, _print(opened, move))
        opened.console.flush()
    if moves.waiting:
        listed = ",".join(str(replica) for replica in sorted(moves.waiting, key=by_broker))
        return opened.complain(
            f"Timed out before log directory move{plural(len(moves.waiting))} could be started for: {listed}"
        )
    return status


def _print(opened: Session, move: BegunMove) -> ExitStatus:
    replica, path, error = move
    row = {**replica._asdict(), "log_dir": path}
    if error is not None:
        return opened.complain(f"Error: Failed to alter dir for {replica}: {error}", error.name, **row)
    opened.console.print(
        f"Successfully started moving log directory to {path} for replica {replica.topic}-{replica.partition} with "
        f"broker {replica.broker} ",
        row | {"outcome": "started"},
    )
    return ExitStatus.OK
