"""The states of a transaction and which may follow which (Kafka's TransactionState)."""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """The number is that of the records in `__transaction_state`."""

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
        """Kafka's name, as tools show it: `CompleteCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and the markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is open: the state may expire."""
        return self in AT_REST

    def may_follow(self, previous: TransactionState) -> bool:
        """Whether a transaction may go from `previous` to this state."""
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
