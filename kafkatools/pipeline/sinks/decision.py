"""The decision for an epoch, as the metadata of committed offsets.

Format, in words separated by a space: `kt1`, which part of how many, the query, the run, the epoch, the transaction
version, the smallest producer id, then for each transaction `partition.attempt.producer id above the smallest.producer
epoch`, separated by commas, in base 36. The offset is the serial number of the decision: the newest one counts, also
over what is left of decisions for other topics and for more tasks. A part is no longer than brokers take by default
(offset.metadata.max.bytes); parts go to the partitions of one topic and are committed together.
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
    """An epoch of a query is committed with these transactions, made in this run of the query."""

    serial: int
    query_id: str
    run: str
    epoch: int
    transactions: tuple[PreparedTransaction, ...]

    def is_of(self, query_id: str, epoch: int) -> bool:
        return self.query_id == query_id and self.epoch == epoch


def offsets_of(
    decision: Decision, places: Sequence[TaskPlace], topic: str, partition_count: int
) -> dict[Place, OffsetAndMetadata]:
    """What is to be committed for a decision, whose transactions are those of `places`. Raises PipelineError when it is
    too long."""
    versions = {one.transaction_version for one in decision.transactions}
    if len(versions) > 1:
        raise PipelineError(
            "kt sink: the cluster's transaction.version changed during the epoch; it is written again when the query "
            "is started again"
        )
    lowest = min(one.producer_id for one in decision.transactions)
    head = f"{decision.query_id} {decision.run} {decision.epoch} {versions.pop()} {lowest} "
    entries = [
        ".".join(map(_base36, (place.partition, place.attempt, one.producer_id - lowest, one.producer_epoch)))
        for place, one in zip(places, decision.transactions, strict=True)
    ]
    parts = _parts(entries, _MOST_CHARACTERS - len(head) - len(_FORMAT) - _ROOM_FOR_NUMBERS)
    if len(parts) > partition_count:
        raise PipelineError(
            f"kt sink: {len(entries)} tasks are too many for one epoch written to {topic} with {partition_count} "
            f"partitions: the decision needs {len(parts)} committed offsets; write fewer tasks (coalesce) or set "
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
    """The last decision among the offsets of a sink's group; `name_of(run, partition, attempt, epoch)` gives the
    transactional ids. Raises PipelineError when a part of it is missing."""
    ours = [one for one in offsets.values() if one.metadata.startswith(f"{_FORMAT} ")]
    if not ours:
        return None
    serial = max(one.offset for one in ours)
    parts = sorted((one.metadata.split(" ") for one in ours if one.offset == serial), key=_number)
    first = parts[0]
    if [part[1] for part in parts] != [f"{number + 1}/{len(parts)}" for number in range(len(parts))]:
        raise PipelineError(f"kt sink: of the decision {first[1:5]} there are parts {[part[1] for part in parts]} only")
    query_id, run, epoch, version, lowest = first[2], first[3], int(first[4]), int(first[5]), int(first[6])
    transactions = []
    for entry in ",".join(part[7] for part in parts).split(","):
        partition, attempt, above, producer_epoch = (int(digits, 36) for digits in entry.split("."))
        name = name_of(run, partition, attempt, epoch)
        transactions.append(PreparedTransaction(name, lowest + above, producer_epoch, version))
    return Decision(serial, query_id, run, epoch, tuple(transactions))


def _number(part: Sequence[str]) -> int:
    return int(part[1].split("/")[0])


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if number == 0:
            return text
