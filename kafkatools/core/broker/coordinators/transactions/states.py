"""The states of a transaction and the transitions between them (Kafka's TransactionState)."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class TransactionState(IntEnum):
    """The state of a transaction; the value is the status byte in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state, as tools print it, such as `CompleteCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Return whether the outcome is decided but not all markers are written (PrepareCommit, PrepareAbort)."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Return whether no transaction is open (Empty, CompleteCommit, CompleteAbort), so that the id may expire."""
        return self in AT_REST

    def may_follow(self, previous: TransactionState) -> bool:
        """Return whether the transition from `previous` to this state is valid."""
        return previous in PREVIOUS[self]


_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_COMMITTED, _ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
AT_REST = frozenset((_EMPTY, _COMMITTED, _ABORTED))

# An abort of nothing (from a state at rest) exists since transaction version 2 only.
PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {_ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((_ONGOING,)),
    TransactionState.PREPARE_ABORT: AT_REST | {_ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
    TransactionState.DEAD: AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset((_ONGOING,)),
}

STATES_BY_LABEL = {state.label: state for state in TransactionState}
