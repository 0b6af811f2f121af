"""Groups with members, made request by request: no client library, no heartbeat threads, known member ids."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_response_header, encode_request
from kafkatools.core.protocol.messages import build, decode, request_type, response_type

COORDINATOR_IS_NOT_THERE_YET = (14, 15, 16)
MEMBER_ID_REQUIRED = 79
SESSION_MS = 600_000


class GroupClient(RawClient):
    """A connection with a client id of its own."""

    def __init__(self, bootstrap: str, client_id: str = "raw") -> None:
        super().__init__(bootstrap)
        self._client_id = client_id

    def call(self, api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        """Sends a request and returns the answer; again while the coordinator is not there yet."""
        entity = build(request_type(api, version), fields)
        while True:
            self._socket.sendall(b"".join(map(bytes, encode_request(api, version, 1, self._client_id, entity))))
            (size,) = struct.unpack(">i", self._receive(4))
            frame = self._receive(size)
            answer = decode(response_type(api, version), frame, decode_response_header(api, version, frame)[1])[0]
            codes = [getattr(answer, "error_code", 0)]
            if api == ApiKey.OFFSET_COMMIT:
                codes += [part.error_code for topic in answer.topics for part in topic.partitions]
            if api == ApiKey.FIND_COORDINATOR:
                codes += [one.error_code for one in answer.coordinators]
            if not any(int(code) in COORDINATOR_IS_NOT_THERE_YET for code in codes):
                return answer

    def find_coordinator(self, group_id: str) -> None:
        """Waits until the group has a coordinator (with one broker: the one that is asked)."""
        self.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": (group_id,)})

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits offsets as nobody: the group has no members."""
        self.find_coordinator(group_id)
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1}
            topics.setdefault(topic, []).append(entry)
        fields = {
            "group_id": group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
        }
        answer = self.call(ApiKey.OFFSET_COMMIT, 8, fields)
        assert all(int(part.error_code) == 0 for topic in answer.topics for part in topic.partitions), answer


class ClassicMember(GroupClient):
    """The only member of a group of the classic protocol: it has all partitions it names. It never sends heartbeats."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        group_id: str,
        partitions: Mapping[str, Sequence[int]],
        instance_id: str | None = None,
    ) -> None:
        super().__init__(bootstrap, client_id)
        self.group_id, self._instance_id = group_id, instance_id
        self.find_coordinator(group_id)
        self.member_id = ""
        joined = self._join(partitions)
        if int(joined.error_code) == MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = self._join(partitions)
        assert int(joined.error_code) == 0, joined
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        assignment = struct.pack(">hi", 0, len(partitions))
        for topic, indexes in partitions.items():
            assignment += _text(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        fields = {
            "group_id": group_id,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": self._instance_id,
            "assignments": [{"member_id": self.member_id, "assignment": assignment + b"\xff\xff\xff\xff"}],
        }
        synced = self.call(ApiKey.SYNC_GROUP, 3, fields)
        assert int(synced.error_code) == 0, synced

    def _join(self, partitions: Mapping[str, Sequence[int]]) -> Any:
        subscription = struct.pack(">hi", 0, len(partitions)) + b"".join(map(_text, partitions)) + b"\xff\xff\xff\xff"
        fields = {
            "group_id": self.group_id,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": SESSION_MS,
            "member_id": self.member_id,
            "group_instance_id": self._instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription}],
        }
        return self.call(ApiKey.JOIN_GROUP, 5, fields)

    def commit_own(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits as the member that it is."""
        for (topic, partition), offset in offsets.items():
            part = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": 0}
            fields = {
                "group_id": self.group_id,
                "generation_id_or_member_epoch": self.generation_id,
                "member_id": self.member_id,
                "topics": [{"name": topic, "partitions": [part]}],
            }
            answer = self.call(ApiKey.OFFSET_COMMIT, 8, fields)
            assert int(answer.topics[0].partitions[0].error_code) == 0, answer

    def leave(self) -> None:
        """Leaves the group."""
        self.call(ApiKey.LEAVE_GROUP, 2, {"group_id": self.group_id, "member_id": self.member_id})


class ConsumerMember(GroupClient):
    """The only member of a group of the consumer protocol (KIP-848). `heartbeat` keeps it alive."""

    def __init__(self, bootstrap: str, client_id: str, group_id: str, member_id: str, topics: Sequence[str]) -> None:
        super().__init__(bootstrap, client_id)
        self.group_id, self.member_id = group_id, member_id
        self.epoch = 0
        self._assigned: Any = None
        self.find_coordinator(group_id)
        self.heartbeat(rebalance_timeout=SESSION_MS, subscribed_topic_names=tuple(topics), topic_partitions=())
        while not self._assigned:
            self.heartbeat()
        self.heartbeat(topic_partitions=self._assigned)

    def heartbeat(self, **fields: Any) -> None:
        """Sends one, and takes in what the answer says."""
        request = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "topic_partitions": None,
            **fields,
        }
        answer = self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert int(answer.error_code) == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assigned = [
                {"topic_id": topic.topic_id, "partitions": tuple(topic.partitions)}
                for topic in answer.assignment.topic_partitions
            ]

    def commit_own(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits as the member that it is."""
        for (topic, partition), offset in offsets.items():
            part = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": 0}
            fields = {
                "group_id": self.group_id,
                "generation_id_or_member_epoch": self.epoch,
                "member_id": self.member_id,
                "topics": [{"name": topic, "partitions": [part]}],
            }
            answer = self.call(ApiKey.OFFSET_COMMIT, 9, fields)
            assert int(answer.topics[0].partitions[0].error_code) == 0, answer

    def leave(self) -> None:
        """Leaves the group."""
        self.epoch = -1
        self.heartbeat()


def visit_share_group(bootstrap: str, group_id: str, member_id: str, topic: str) -> None:
    """Makes a share group: a member joins and leaves."""
    with GroupClient(bootstrap) as client:
        client.find_coordinator(group_id)
        for epoch, topics in ((0, (topic,)), (-1, None)):
            fields = {
                "group_id": group_id,
                "member_id": member_id,
                "member_epoch": epoch,
                "subscribed_topic_names": topics,
            }
            answer = client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)
            assert int(answer.error_code) == 0, answer


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
