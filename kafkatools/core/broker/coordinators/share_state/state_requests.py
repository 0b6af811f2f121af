"""What the five requests for share state have in common: topics with partitions in, a result for each out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey, name_of
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, InvalidRequest, KafkaError

Fields = dict[str, Any]
Outcome = tuple[Fields, ProduceStatus | None]
Do = Callable[[ShareCoordinator, ShareKey, Any], Outcome]


class Coordinator(Protocol):
    """The share coordinator, and when what it wrote is committed (`Coordination`)."""

    @property
    def share_states(self) -> ShareCoordinator:
        """The coordinator; opened when it is first needed."""

    def when_states_committed(
        self, names: Iterable[str], statuses: Sequence[ProduceStatus | None], done: Callable[[dict[str, int]], None]
    ) -> None:
        """Call back, now or later, with the error codes of the states that were not kept."""


def answer(is_allowed: bool, coordinator: Coordinator, request: Request, do: Do) -> Response:
    """Do it for every partition, if the client is allowed to."""
    entity = request.decode()
    statuses: list[ProduceStatus | None] = []
    outcomes: dict[str, Fields] = {}
    results = []
    for topic in entity.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                if not is_allowed:
                    raise ClusterAuthorizationFailed()
                if not entity.group_id or topic.topic_id is None:
                    raise InvalidRequest()
                key = ShareKey(entity.group_id, topic.topic_id, partition.partition)
                outcome, status = do(coordinator.share_states, key, partition)
                statuses.append(status)
                outcomes[name_of(key)] = outcome
            except KafkaError as error:
                outcome = {"error_code": error.code, "error_message": str(error)}
            outcome["partition"] = partition.partition
            partitions.append(outcome)
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    later = Deferred(request)

    def committed(failed: dict[str, int]) -> None:
        for name, code in failed.items():
            partition = outcomes[name]["partition"]
            outcomes[name].clear()
            outcomes[name].update(partition=partition, error_code=code)
        later.respond({"results": results})

    coordinator.when_states_committed(outcomes, statuses, committed)
    return later.result()
