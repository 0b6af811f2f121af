"""Start moves between log directories and print them (ReassignPartitionsCommand.executeMoves)."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.session import Session
from kafkatools.core.admin.reassignments import Replica
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.reassignment.listings import plural
from kafkatools.tools.reassignment.log_dirs import BeginningMoves, BegunMove, by_broker


def begin_moves(session: Session, requested: Mapping[Replica, str], timeout_ms: int) -> ExitStatus:
    """Start moves between log directories and print each. Returns FAILED if one was refused or timed out."""
    moves = BeginningMoves(session.admin, requested, timeout_ms)
    status = ExitStatus.OK
    for round_moves in moves.rounds():
        for move in round_moves:
            status = max(status, _print(session, move))
        session.console.flush()
    if moves.waiting:
        names = ",".join(str(replica) for replica in sorted(moves.waiting, key=by_broker))
        return session.complain(
            f"Timed out before log directory move{plural(len(moves.waiting))} could be started for: {names}"
        )
    return status


def _print(session: Session, move: BegunMove) -> ExitStatus:
    replica, path, error = move
    row = {**replica._asdict(), "log_dir": path}
    if error is not None:
        return session.complain(f"Error: Failed to alter dir for {replica}: {error}", error.name, **row)
    session.console.print(
        f"Successfully started moving log directory to {path} for replica {replica.topic}-{replica.partition} with "
        f"broker {replica.broker} ",
        row | {"outcome": "started"},
    )
    return ExitStatus.OK
