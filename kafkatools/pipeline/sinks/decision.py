"""The commit decision for a stream's epoch, stored as the metadata of committed offsets of the sink's group.

The metadata consist of words separated by spaces: `kt1`, part number/number of parts, query ID, run, epoch, transaction
version, smallest producer ID, transactions. Each transaction is `partition.attempt.producer ID minus the
smallest.producer epoch` in base 36; commas separate them. The committed offset is the decision's serial number; the
highest one counts, even if other topics or larger decisions left parts behind. A part is at most as long as brokers
allow by default (offset.metadata.max.bytes). The parts use the partitions of one topic and are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sinks.tasks import TaskPlace

_FORMAT = "kt1"
_MOST_CHARACTERS = 4096
_ROOM_FOR_NUMBERS = 16
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

Place = tuple[str, int]
NameOf = Callable[[str, int, int, int], str]


class Decision(NamedTuple):
    """The decision that an epoch of a query is committed, with the transactions of the run that wrote the epoch."""

    serial: int
    query_id: str
    run: str
    epoch: int
    transactions: tuple[PreparedTransaction, ...]

    def is_of(self, query_id: str, epoch: int) -> bool:
        """Return whether the decision is for this epoch of this query."""
        return self.query_id == query_id and self.epoch == epoch


def offsets_of(
    decision: Decision, places: Sequence[TaskPlace], topic: str, partition_count: int
) -> dict[Place, OffsetAndMetadata]:
    """Encode a decision as offsets to commit, by topic and partition; `places` are the tasks of its transactions.
    Raises PipelineError if the decision needs more partitions than `partition_count`, or the cluster's
    transaction.version changed."""
    versions = {transaction.transaction_version for transaction in decision.transactions}
    if len(versions) > 1:
        raise PipelineError(
            "kt sink: the cluster's transaction.version changed during the epoch; restart the query to write the epoch "
            "again"
        )
    lowest = min(transaction.producer_id for transaction in decision.transactions)
    head = f"{decision.query_id} {decision.run} {decision.epoch} {versions.pop()} {lowest} "
    entries = [
        ".".join(map(_base36, (place.partition, place.attempt, ours.producer_id - lowest, ours.producer_epoch)))
        for place, ours in zip(places, decision.transactions, strict=True)
    ]
    parts = _parts(entries, _MOST_CHARACTERS - len(head) - len(_FORMAT) - _ROOM_FOR_NUMBERS)
    if len(parts) > partition_count:
        raise PipelineError(
            f"kt sink: {len(entries)} tasks are too many for one epoch written to {topic} with {partition_count} "
            f"partitions: the decision needs {len(parts)} committed offsets; use fewer tasks (coalesce) or set "
            "exactlyOnce=false"
        )
    return {
        (topic, number): OffsetAndMetadata(decision.serial, -1, f"{_FORMAT} {number + 1}/{len(parts)} {head}{part}")
        for number, part in enumerate(parts)
    }


def _parts(entries: Sequence[str], room: int) -> list[str]:
    parts: list[str] = []
    for entry in entries:
        if parts and len(parts[-1]) + 1 + len(entry) <= room:
            parts[-1] += f",{entry}"
        else:
            parts.append(entry)
    return parts


def newest_decision(offsets: Mapping[Place, OffsetAndMetadata], name_of: NameOf) -> Decision | None:
    """Decode the decision with the highest serial number from the committed offsets of a sink's group; None if there is
    none. `name_of(run, partition, attempt, epoch)` returns the transactional ID. Raises PipelineError if a part is
    missing."""
    ours = [offset for offset in offsets.values() if offset.metadata.startswith(f"{_FORMAT} ")]
    if not ours:
        return None
    serial = max(offset.offset for offset in ours)
    parts = [offset.metadata.split(" ") for offset in ours if offset.offset == serial]
    parts.sort(key=lambda part: int(part[1].partition("/")[0]))
    first = parts[0]
    numbers = [part[1] for part in parts]
    if numbers != [f"{number + 1}/{len(parts)}" for number in range(len(parts))]:
        raise PipelineError(
            f"kt sink: the committed decision for epoch {first[4]} of query {first[2]} is incomplete: "
            f"it has only the parts {', '.join(numbers)}"
        )
    query_id, run, epoch, version, lowest = first[2], first[3], int(first[4]), int(first[5]), int(first[6])
    transactions = []
    for entry in ",".join(part[7] for part in parts).split(","):
        partition, attempt, above, producer_epoch = (int(digits, 36) for digits in entry.split("."))
        name = name_of(run, partition, attempt, epoch)
        transactions.append(PreparedTransaction(name, lowest + above, producer_epoch, version))
    return Decision(serial, query_id, run, epoch, tuple(transactions))


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if number == 0:
            return text
