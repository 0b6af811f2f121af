"""Handler for Produce. `appends.py` appends the batches.

Batches of transactions are verified with the transaction coordinator first; from version 12 on their partitions are
added to the transaction (KIP-890). `transactional_produce.py` does that and is imported when the first such batch
arrives.
"""

from __future__ import annotations

from kafkatools.core.broker.apis import appends
from kafkatools.core.broker.apis.contexts import ProduceContext
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError


def handle_produce(node: ProduceContext, request: Request) -> Response:
    """Answer Produce: append a batch per partition. Responds at once with acks=1, when the batches are replicated with
    acks=all, and not at all with acks=0; with log.durability=fsync when they are on disk.

    Raises CloseConnection for a malformed request, and when a request with acks=0 fails.
    """
    try:
        data = appends.parse(request.frame, request.body_offset, request.version)
    except DecodeError as error:
        raise CloseConnection(f"malformed produce request: {error}") from error
    if request.quotas is not None:
        request.quotas.note_produce(request, len(request.frame))
    if data.transactional_id is not None or appends.has_transactional_records(data.topics):
        from kafkatools.core.broker.apis import transactional_produce

        return transactional_produce.handle(node, request, data)
    return appends.append_all(node, request, data)
