"""Who leads the partitions of a request, out of one Metadata answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkatools.core import errors
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.leaders import LeaderRequest, send_to_leaders


class _Topic:
    """A topic of a Metadata answer that counts how often its partitions are gone through."""

    def __init__(self, name: str, leaders: dict[int, int], error_code: int = 0) -> None:
        self.name, self.error_code, self.walks = name, error_code, 0
        self._parts = [SimpleNamespace(partition_index=part, leader_id=leader) for part, leader in leaders.items()]

    @property
    def partitions(self) -> list[SimpleNamespace]:
        self.walks += 1
        return self._parts


class _Admin:
    """As much of an AdminClient as is needed: every request is answered with its partitions."""

    send_by_node = AdminClient.send_by_node

    def __init__(self, *topics: _Topic) -> None:
        self._topics = topics
        self.requested: list[tuple[int, list[tuple[str, int]]]] = []

    def may_move(self, leaderless_ms: int | None = None) -> None:
        return None

    def retry_items(self, items: Any, once: Any, timeout_ms: int | None, may_retry: Any) -> Any:
        return once(list(items), 0)

    def metadata_of(self, names: list[str], deadline_ms: int) -> Any:
        return SimpleNamespace(topics=[topic for topic in self._topics if topic.name in names])

    def remaining_ms(self, deadline_ms: int) -> int:
        return 1

    def send_all(self, requests: list[Any], deadline_ms: int) -> list[Any]:
        self.requested += [(request.node, request.fields["partitions"]) for request in requests]
        return [SimpleNamespace(error=None, entity=request.fields) for request in requests]


REQUEST = LeaderRequest(
    0,
    build=lambda partitions, remaining_ms: {"partitions": partitions},
    read=lambda fields: dict.fromkeys(fields["partitions"], "done"),
)


def test_partitions_go_to_their_leaders_or_have_an_error() -> None:
    admin: Any = _Admin(_Topic("a", {1: 7, 0: 8, 2: -1}), _Topic("b", {}, 3), _Topic("c", {}, 29))
    wanted = [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("c", 0), ("d", 0)]
    found = send_to_leaders(admin, wanted, REQUEST)
    assert dict(admin.requested) == {8: [("a", 0)], 7: [("a", 1)]}
    assert found["a", 0] == found["a", 1] == "done"
    assert isinstance(found["a", 2], errors.LeaderNotAvailable)
    assert isinstance(found["c", 0], errors.TopicAuthorizationFailed)
    for missing in (("a", 3), ("b", 0), ("d", 0)):
        assert isinstance(found[missing], errors.UnknownTopicOrPartition)
        assert not found[missing].retriable


def test_the_cost_is_one_walk_a_topic() -> None:
    topic = _Topic("a", dict.fromkeys(range(1000), 1))
    admin: Any = _Admin(topic)
    assert len(send_to_leaders(admin, [("a", part) for part in range(1000)], REQUEST)) == 1000
    assert topic.walks == 1
