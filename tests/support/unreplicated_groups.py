"""Changes of groups while the follower of `__consumer_offsets` stands still, so that none of them is replicated: what
ListGroups, the describing requests and OffsetFetch answer meanwhile. Asked of a cluster of two brokers, whose node 1
coordinates all groups."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any, Protocol

from kafkatools.core.protocol.api_versions import ApiKey

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "groups" / "unreplicated.json"
SETTINGS = {
    "broker.session.timeout.ms": "120000",
    "replica.lag.time.max.ms": "120000",
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignors": "uniform",
}
NOT_YET = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""


def golden() -> list[Any]:
    """The answers of Apache Kafka 4.3.1."""
    answers: list[Any] = json.loads(GOLDEN.read_text())["answers"]
    return answers


class Cluster(Protocol):
    """Two brokers. `send` sends a request on a connection of its own, and waits until node 1 has taken it."""

    def call(self, api_key: int, version: int, **fields: Any) -> Any: ...
    def send(self, api_key: int, version: int, **fields: Any) -> None: ...
    def pause_follower(self) -> None: ...
    def resume_follower(self) -> None: ...
    def eventually(self, is_true: Callable[[], bool]) -> None: ...


def _heartbeat(group: str, member: str, epoch: int) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout": 30000 if epoch == 0 else -1,
        "subscribed_topic_names": ["t"] if epoch == 0 else None,
        "topic_partitions": [] if epoch == 0 else None,
    }


def _commit(group: str, member: str = "", epoch: int = -1) -> dict[str, Any]:
    row = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [row]}]
    return {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}


def _joined(cluster: Cluster, group: str, member: str) -> int:
    """Join, and return the member's epoch."""
    epochs: list[int] = []

    def is_joined() -> bool:
        response = cluster.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **_heartbeat(group, member, 0))
        assert response.error_code in (0, *NOT_YET), response
        epochs.append(response.member_epoch)
        return not response.error_code

    cluster.eventually(is_joined)
    return epochs[-1]


def _ask_all(cluster: Cluster, label: str, epoch: int) -> list[Any]:
    """The answers of all requests; `epoch` is that of members that joined a new group."""
    groups = cluster.call(ApiKey.LIST_GROUPS, 5).groups
    described = cluster.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["c", "d", "new"]).groups
    classic = cluster.call(ApiKey.DESCRIBE_GROUPS, 6, groups=["plain", "simple", "c"]).groups
    members = (
        ("c", "m1", epoch),
        ("c", "m2", epoch + 1),
        ("d", "d1", epoch),
        ("new", "n1", epoch),
        ("plain", None, -1),
    )
    return [
        [f"list {label}", *sorted([group.group_id, group.group_state, group.group_type] for group in groups)],
        [f"describe {label}", *map(_described, described)],
        [f"classic {label}", *([group.group_id, group.error_code, group.group_state] for group in classic)],
        *([f"fetch {label}", *member, *_fetched(cluster, *member)] for member in members),
    ]


def tell(cluster: Cluster) -> list[Any]:
    """The answers before, during and after the changes."""
    places = {"__consumer_offsets": [[1, 2]], "t": [[1], [1]]}
    topics = [
        {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(replicas)],
            "configs": [],
        }
        for name, replicas in places.items()
    ]
    made = cluster.call(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=5000, validate_only=False)
    assert [topic.error_code for topic in made.topics] == [0, 0]
    epoch = _joined(cluster, "c", "m1")
    assert _joined(cluster, "d", "d1") == epoch
    for commit in (_commit("c", "m1", epoch), _commit("d", "d1", epoch), _commit("plain")):
        response = cluster.call(ApiKey.OFFSET_COMMIT, 9, **commit)
        assert response.topics[0].partitions[0].error_code == 0, response
    answers = _ask_all(cluster, "before", epoch)
    cluster.pause_follower()
    cluster.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **_heartbeat("c", "m2", 0))
    cluster.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **_heartbeat("d", "d1", -1))
    cluster.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **_heartbeat("new", "n1", 0))
    cluster.send(ApiKey.OFFSET_COMMIT, 9, **_commit("simple"))
    cluster.send(ApiKey.DELETE_GROUPS, 2, groups_names=["plain"])
    answers += _ask_all(cluster, "meanwhile", epoch)
    answers.append(["fetch stable", *_fetched(cluster, "d", "d1", epoch, require_stable=True)])
    cluster.resume_follower()

    def is_replicated() -> bool:
        (group,) = cluster.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["c"]).groups
        return len(group.members) == 2

    cluster.eventually(is_replicated)
    return answers + _ask_all(cluster, "after", epoch)


def _described(group: Any) -> list[Any]:
    members = sorted([member.member_id, member.member_epoch] for member in group.members)
    return [group.group_id, group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, members]


def _fetched(
    cluster: Cluster, group: str, member: str | None, epoch: int, *, require_stable: bool = False
) -> list[Any]:
    requested = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "topics": [{"name": "t", "partition_indexes": [0]}],
    }
    (found,) = cluster.call(ApiKey.OFFSET_FETCH, 9, groups=[requested], require_stable=require_stable).groups
    return [found.error_code, *(part.committed_offset for topic in found.topics for part in topic.partitions)]
