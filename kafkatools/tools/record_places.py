"""Turn a place in a topic, such as a time or a distance before the log end, into an offset of each partition."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.leaders import ELECTION_MS, TopicPartition
from kafkatools.core.admin.offsets import EARLIEST, LATEST, PartitionOffset, list_offsets
from kafkatools.core.errors import KafkaError
from kafkatools.tools.lines.slice import Anchor, Place


def offsets_at(
    admin: AdminClient, partitions: Iterable[TopicPartition], place: Place
) -> dict[TopicPartition, int | KafkaError]:
    """Return the offset of a place in each partition, or the partition's error. A time is the first record at or after
    it, the log end without such a record. The log end is looked up first, so records that arrive meanwhile are behind
    the offset. Raises KafkaError when metadata cannot be fetched."""
    ends = list_offsets(admin, dict.fromkeys(partitions, LATEST), leaderless_ms=ELECTION_MS)
    looked_up = {Anchor.TIME: place.value, Anchor.LOG_START: EARLIEST}.get(place.anchor)
    online = [key for key, end in ends.items() if end.error is None]
    listed = {} if looked_up is None else list_offsets(admin, dict.fromkeys(online, looked_up), leaderless_ms=0)
    return {key: end.error or _offset(place, end.offset, listed.get(key)) for key, end in ends.items()}


def _offset(place: Place, end: int, listed: PartitionOffset | None) -> int | KafkaError:
    """Return the offset of a place in a partition with this log end; `listed`: its listed offset if looked up."""
    if listed is not None and listed.error is not None:
        return listed.error
    if place.anchor is Anchor.TIME:
        return end if listed is None or listed.offset < 0 else listed.offset
    if place.anchor is Anchor.LOG_START:
        return min(end, place.value + (0 if listed is None else listed.offset))
    return max(0, end - place.value) if place.anchor is Anchor.LOG_END else place.value
