"""Name the open transactions at which a read_committed reader ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.config import ADMIN
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition

_TIMEOUT_MS = "3000"


def open_end(part: TopicPartition, offset: int, producer_id: int) -> str:
    """Return the line about a partition that ends at the first offset of an open transaction."""
    return f"{part} ends at offset {offset}: the transaction of producer {producer_id} that begins there is open"


def report_open_ends(
    settings: Mapping[str, str], clock: Clock, ends: Mapping[TopicPartition, int], note: Callable[[str], None]
) -> None:
    """Print a line for each partition whose end offset is the first offset of an open transaction. Asks the leaders
    (DescribeProducers); what they do not answer within 3 seconds is left out."""
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.transactions import describe_producers

    known = {name: value for name, value in settings.items() if name in ADMIN and name != "bootstrap.servers"}
    known["default.api.timeout.ms"] = known["request.timeout.ms"] = _TIMEOUT_MS
    try:
        with AdminClient(settings["bootstrap.servers"], known, clock) as admin:
            producers = describe_producers(admin, list(ends))
    except KafkaError:
        return
    for part, offset in ends.items():
        states = producers.get(part)
        for state in states if isinstance(states, list) else ():
            if state.transaction_start_offset == offset:
                note(open_end(part, offset, state.producer_id))
