"""Produce: the request is read here; `appends.py` writes its records.

A batch of a transaction is verified with the transaction coordinator, and from version 12 on its partition is added to
the transaction (KIP-890, `transactional_produce.py`): imported when the first one comes.
"""

from __future__ import annotations

from kafkatools.core.broker.apis import appends
from kafkatools.core.broker.apis.contexts import ProduceContext
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError


def handle_produce(node: ProduceContext, request: Request) -> Response:
    """Append, then answer at once or when replicated."""
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
