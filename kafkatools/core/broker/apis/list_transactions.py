"""ListTransactions (key 66), versions 0-2.

Filters by state and producer id, by how long it has been open (version 1), by a pattern of the transactional id
of RE2 (version 2), matched in linear time and in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.transactions.states import STATES_BY_LABEL
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, TRANSACTIONAL_ID
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import CoordinatorLoadInProgress, InvalidRegularExpression
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.java.linear_pattern import LinearPattern

FIRST_VERSION_OF_DURATION = 1
FIRST_VERSION_OF_PATTERN = 2


def handle(node: Node, request: Request) -> Response:
    """Every transactional id that passes the filters; an empty filter passes all."""
    entity = request.decode()
    unknown = [name for name in dict.fromkeys(entity.state_filters) if name not in STATES_BY_LABEL]
    states = {STATES_BY_LABEL[name] for name in entity.state_filters if name in STATES_BY_LABEL}
    fields: dict[str, Any] = {"error_code": 0, "unknown_state_filters": unknown, "transaction_states": []}
    if unknown and not states:
        return request.respond(fields)  # nothing is in a state that there is not
    if node.coordination.transactions.is_loading:
        return request.respond({**fields, "error_code": CoordinatorLoadInProgress.code})
    duration_ms = entity.duration_filter if request.version >= FIRST_VERSION_OF_DURATION else -1
    try:
        pattern = _pattern(entity.transactional_id_pattern if request.version >= FIRST_VERSION_OF_PATTERN else None)
    except InvalidRegularExpression:
        return request.respond({**fields, "error_code": InvalidRegularExpression.code})
    now_ms = node.clock.wall_ms()
    producer_ids = set(entity.producer_id_filters)
    for name, transaction in paced(list(node.transactions.transactions.items())):
        value = transaction.value
        if (
            (producer_ids and value.producer_id not in producer_ids)
            or (states and value.state not in states)
            or (duration_ms >= 0 and now_ms - value.start_ms <= duration_ms)
            or (pattern is not None and not pattern.fullmatch(paced(name)))
            or not node.authorize(request, DESCRIBE, TRANSACTIONAL_ID, name)
        ):
            continue
        state = {"transactional_id": name, "producer_id": value.producer_id, "transaction_state": value.state.label}
        fields["transaction_states"].append(state)
    return request.respond(fields)


def _pattern(text: str | None) -> LinearPattern | None:
    """A pattern of RE2 that the whole id must match; raises InvalidRegularExpression."""
    if not text:
        return None
    from kafkatools.core.broker.coordinators.groups.topic_regex import compiled

    return compiled(text, "Transaction ID pattern")
