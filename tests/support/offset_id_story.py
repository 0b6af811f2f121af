"""Committed offsets by topic id (OffsetCommit and OffsetFetch 10), told request by request to a broker."""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from typing import Any

import pytest
from support.group_members import new_topic, our_member
from support.raw_client import RawClient
from support.rebalances import settle
from support.transaction_teller import error

from kafkatools.core.consumer import network
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.errors import Timeout
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.net import requests
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import encode_fields
from kafkatools.core.protocol.schemas import offsets as offset_records

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "offsets-by-topic-id.json"
NOWHERE = uuid.UUID("12345678-1234-5678-1234-567812345678")
TOPIC = "__consumer_offsets"
GROUP = "offsets_by_id"


def golden() -> list[Any]:
    """What Apache Kafka 4.3.1 answered and wrote."""
    answers: list[Any] = json.loads(GOLDEN.read_text())
    return answers


class _Teller:
    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.answers: list[Any] = []
        self.ids: dict[str, uuid.UUID] = {"nowhere": NOWHERE, "zero": uuid.UUID(int=0)}

    def create(self, name: str, partitions: int = 1, label: str = "") -> None:
        self.client.create_topic(name, partitions)
        found = self.client.call(ApiKey.METADATA, 12, {"topics": [{"topic_id": None, "name": name}]})
        self.ids[label or name] = found.topics[0].topic_id or uuid.UUID(int=0)

    def delete(self, name: str) -> None:
        self.client.call(ApiKey.DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 5000})
        fields = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        while error(self.client.call(ApiKey.METADATA, 9, fields).topics[0].error_code) == "OK":
            time.sleep(0.02)
        time.sleep(0.5)  # the group coordinator of Apache Kafka hears of it a moment later

    def name(self, topic_id: uuid.UUID | None) -> str:
        return next(name for name, found in self.ids.items() if found == (topic_id or uuid.UUID(int=0)))

    def commit(self, *offsets: tuple[str, int, int], version: int = 10, group: str = GROUP) -> None:
        """OffsetCommit of (topic, partition, offset); in version 10 `topic` is the label of an id."""
        topics: list[dict[str, Any]] = []
        for topic, partition, offset in offsets:
            key = {"topic_id": self.ids[topic]} if version >= 10 else {"name": topic}
            row = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": 3}
            topics.append({**key, "partitions": [{**row, "committed_metadata": "note"}]})
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        while True:
            answer = self.client.call(ApiKey.OFFSET_COMMIT, version, {**fields, "group_instance_id": None})
            rows = [
                [
                    self.name(topic.topic_id) if version >= 10 else topic.name,
                    int(part.partition_index),
                    error(part.error_code),
                ]
                for topic in answer.topics
                for part in topic.partitions
            ]
            if not any(row[2] in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR") for row in rows):
                break
        self.answers.append([f"commit {version}", *rows])

    def fetch(self, *topics: str, version: int = 10, all_topics: bool = False, group: str = GROUP) -> None:
        """OffsetFetch of partitions 0 and 1 of topics, or of all topics."""
        asked = [
            {**({"topic_id": self.ids[topic]} if version >= 10 else {"name": topic}), "partition_indexes": [0, 1]}
            for topic in topics
        ]
        wanted = {"group_id": group, "topics": None if all_topics else asked, "member_id": None, "member_epoch": -1}
        answer = self.client.call(ApiKey.OFFSET_FETCH, version, {"groups": [wanted], "require_stable": True})
        [found] = answer.groups
        rows = [
            [
                self.name(topic.topic_id) if version >= 10 else topic.name,
                int(part.partition_index),
                int(part.committed_offset),
                int(part.committed_leader_epoch),
                part.metadata,
                error(part.error_code),
            ]
            for topic in found.topics
            for part in topic.partitions
        ]
        self.answers.append([f"fetch {version}", error(found.error_code), *sorted(rows)])


def tell(bootstrap: str) -> list[Any]:
    """The answers of a broker, and the records that it wrote."""
    with RawClient(bootstrap) as client:
        while True:
            found = client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [GROUP]})
            if int(found.coordinators[0].error_code) == 0:
                break
        s = _Teller(client)
        s.create("ids.a", 2)
        s.create("ids.b")
        s.commit(("ids.a", 0, 5), ("ids.b", 0, 6))
        s.fetch("ids.a", "ids.b")
        s.fetch("ids.a", version=9)
        s.fetch(all_topics=True)
        s.commit(("ids.a", 1, 7), ("nowhere", 0, 1), ("ids.a", 7, 2), ("zero", 0, 1))
        s.commit(("nowhere", 0, 1))
        s.commit(("nowhere", 0, 1), group="")
        s.fetch("ids.a", "nowhere", "zero")
        s.fetch("ids.a", "nowhere", group="unknown")
        s.commit(("ids.a", 1, 8), version=9)
        s.fetch(all_topics=True, version=9)
        s.delete("ids.b")
        s.commit(("ids.b", 0, 9))
        s.fetch("ids.a", "ids.b")
        s.fetch("ids.b", version=9)
        s.create("ids.b", label="ids.b again")
        time.sleep(0.5)
        s.fetch("ids.b", "ids.b again")
        s.commit(("ids.b", 0, 10), ("ids.b again", 0, 11))
        s.fetch("ids.b", "ids.b again")
        s.fetch(all_topics=True)
    names = {str(found): name for name, found in s.ids.items()}
    answers: list[Any] = json.loads(json.dumps([*s.answers, *records_of(bootstrap, names)]))
    return answers


def records_of(bootstrap: str, names: dict[str, str]) -> list[Any]:
    """The group's offsets in `__consumer_offsets`: key, and the bytes of the value with 0 for time and topic id."""
    records = []
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign((TOPIC, index) for index in consumer.partitions_for(TOPIC))
        consumer.seek_to_beginning()
        for record in consumer.read_to_end():
            if int.from_bytes(record.key[:2], "big") > 1 or GROUP.encode() not in record.key:
                continue
            if record.value is None:
                records.append([record.key.hex(), None])
                continue
            version = int.from_bytes(record.value[:2], "big")
            value, _ = offset_records.OffsetCommitValue.read(version, record.value, 2)
            kind = offset_records.OffsetCommitValue.entity(version)
            fields = {name: getattr(value, name) for name in value.__layout__.names}
            assert encode_fields(kind, fields) == record.value[2:]
            topic = names.get(str(fields.get("topic_id")), "no id")
            blank = encode_fields(kind, {**fields, "commit_timestamp": 0, "topic_id": None})
            records.append([record.key.hex(), version, topic, blank.hex()])
    return records


def commit_as_member(bootstrap: str, protocol: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer of a protocol commits and fetches in this version, as KafkaConsumer of 4.3.1 does, and the offset of a
    topic that was deleted is not committed."""
    sent: dict[int, int] = {}

    def build_request(api_key: int, version: int, fields: Any) -> Any:
        sent[api_key] = version
        return requests.build_request(api_key, version, fields)

    monkeypatch.setattr(network, "build_request", build_request)
    topic = new_topic(bootstrap, 2)
    own = {"group_protocol": protocol, "enable_auto_commit": "false"}  # with it the close retries for 30 s
    with our_member(bootstrap, f"commits-by-{protocol}", **own) as member:
        member.subscribe([topic])
        settle([member], 2)
        member.commit_sync({(topic, 0): 5})
        committed = member.committed([(topic, 0), (topic, 1)])
        assert committed == {(topic, 0): OffsetAndMetadata(5), (topic, 1): None}
        assert (sent[ApiKey.OFFSET_COMMIT], sent[ApiKey.OFFSET_FETCH]) == (version, version)
        with RawClient(bootstrap) as client:
            client.call(ApiKey.DELETE_TOPICS, 5, {"topic_names": [topic], "timeout": 5000})
        with pytest.raises(Timeout):
            member.commit_sync({(topic, 0): 6}, timeout_ms=1000)
