"""DeleteRecords (key 21), versions 0-2: moves the log start offset; -1 is the high watermark. Answered when every
replica that is alive begins there, or when the request's time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import DELETE, TOPIC
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS
from kafkatools.core.broker.replicas.delayed_delete_records import DelayedDeleteRecords, DeleteRecordsStatus
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.requests import DELAYED, Request, Response
from kafkatools.core.errors import InvalidTopic

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

_Outcome = DeleteRecordsStatus | int


def handle(node: Node, request: Request) -> Response:
    """One answer per partition: the new low watermark."""
    entity = request.decode()
    outcomes = [
        (topic.name, [(each.partition_index, _delete(node, request, topic.name, each)) for each in topic.partitions])
        for topic in entity.topics
    ]
    statuses = [each for _, partitions in outcomes for _, each in partitions if isinstance(each, DeleteRecordsStatus)]
    if all([status.look() for status in statuses]):
        return _answer(request, outcomes)
    timeout_ms = int(entity.timeout.total_seconds() * 1000)
    operation = DelayedDeleteRecords(timeout_ms, statuses, lambda: request.complete(_answer(request, outcomes)))
    deletes = node.replicas.deletes
    assert deletes is not None, "only a follower can be waited for"
    deletes.try_complete_else_watch(operation, [each.partition.key for each in statuses], node.clock.now_ms())
    return DELAYED


def _delete(node: Node, request: Request, topic: str, wanted: Any) -> _Outcome:
    """What is to be reached, or an error."""
    try:
        node.authorize_or_raise(request, DELETE, TOPIC, topic)
        partition = node.replicas.get(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
        required = partition.log.high_watermark if wanted.offset == -1 else wanted.offset
        partition.delete_records(wanted.offset)
        node.replicas.note_high_watermark(partition)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        return error_code_of(error)
    return DeleteRecordsStatus(partition, required)


def _answer(request: Request, outcomes: list[tuple[str, list[tuple[int, _Outcome]]]]) -> Response:
    topics = [
        {"name": name, "partitions": [_result(index, outcome) for index, outcome in partitions]}
        for name, partitions in outcomes
    ]
    return request.respond({"topics": topics})


def _result(index: int, outcome: _Outcome) -> dict[str, Any]:
    if isinstance(outcome, int):
        return {"partition_index": index, "low_watermark": -1, "error_code": outcome}
    return {"partition_index": index, "low_watermark": outcome.low_watermark, "error_code": outcome.error_code}
