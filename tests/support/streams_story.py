"""A life of streams groups in requests: what a broker answers, and what it writes to `__consumer_offsets`."""

from __future__ import annotations

import pathlib
import time
from typing import Any

from support.broker_client import batch
from support.file_batches import read_file_batches
from support.group_scenarios import plain
from support.raw_client import RawClient
from support.waiting import eventually

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.schemas.offsets import decode_record, encode_record

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}
STREAMS_TYPES = range(17, 24)
BEAT, DESCRIBE = ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE
SETTLING = 0.4
Fields = dict[str, Any]


def topic(name: str, partitions: int = 0, **configs: str) -> Fields:
    """An internal topic of a topology."""
    rows = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": rows}


def part(number: int, sources: list[str], **more: Any) -> Fields:
    """A subtopology."""
    empty = ("source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics")
    fields = dict.fromkeys((*empty, "copartition_groups"), ())
    return {"subtopology_id": str(number), "source_topics": sources, **fields, **more}


def word_count(app: str) -> Fields:
    """Word count: a repartition, and a store with a changelog."""
    repartition, changelog = f"{app}-words-repartition", topic(f"{app}-words-changelog", cleanup_policy="compact")
    return {
        "epoch": 0,
        "subtopologies": [
            part(0, ["lines"], repartition_sink_topics=[repartition]),
            part(
                1,
                [],
                repartition_source_topics=[topic(repartition, segment_bytes="52428800", cleanup_policy="delete")],
                state_changelog_topics=[changelog],
            ),
        ],
    }


def tasks(**partitions: list[int]) -> list[Fields]:
    """Tasks by subtopology: t0=[1] is task 0-1."""
    return [{"subtopology_id": key[1:], "partitions": value} for key, value in partitions.items()]


class Story:
    """Plays the life and notes each answer."""

    def __init__(self, bootstrap: str) -> None:
        self.client = RawClient(bootstrap)
        self.told: list[Fields] = []
        self.client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["wc"]})

    def call(self, api: ApiKey, version: int, fields: Fields) -> Any:
        """Send a request until the coordinator answers it."""
        for _ in range(600):
            answer = self.client.call(api, version, fields)
            codes = [getattr(row, "error_code", 0) for row in (answer, *getattr(answer, "groups", ()))]
            if not {14, 15, 16} & set(codes):
                return answer
            time.sleep(0.05)
        raise AssertionError(f"no coordinator: {answer}")

    def beat(self, group: str, member: str, epoch: int = 0, **changes: Any) -> None:
        """A heartbeat, noted."""
        fields: Fields = {"group_id": group, "member_id": member, "member_epoch": epoch}
        fields["endpoint_information_epoch"] = 0
        if epoch == 0:
            fields["process_id"] = f"process-{member}"
            fields |= {"rebalance_timeout": 60_000, "topology": word_count(group), "client_tags": []}
            fields |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        answer = plain(self.call(BEAT, 0, {**fields, **changes}))
        for endpoint in answer["partitions_by_user_endpoint"] or ():  # Java lists an immutable map in any order
            endpoint["active_partitions"].sort(key=lambda row: str(row["topic"]))
        self.told.append({"beat": [group, member, epoch], **answer})

    def owned(self, group: str, member: str, epoch: int, active: list[Fields], standby: list[Fields]) -> None:
        """A heartbeat that reports tasks."""
        self.beat(group, member, epoch, active_tasks=active, standby_tasks=standby, warmup_tasks=[])

    def describe(self, *groups: str) -> None:
        """StreamsGroupDescribe, noted; members by id."""
        found = plain(self.call(DESCRIBE, 0, {"group_ids": list(groups), "include_authorized_operations": False}))
        for group in found["groups"]:
            group["members"].sort(key=lambda member: str(member["member_id"]))
        self.told.append({"describe": found["groups"]})

    def note(self, what: str, code: int) -> None:
        """Note an error code."""
        self.told.append({what: int(code)})

    def create(self, name: str, partitions: int) -> None:
        """Make a topic, and let the coordinator hear of it."""
        self.client.create_topic(name, partitions)
        time.sleep(SETTLING)

    def await_topic(self, name: str) -> None:
        """Wait until the broker has made an internal topic."""

        def exists() -> bool:
            request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            found = self.client.call(ApiKey.METADATA, 9, request).topics[0]
            return int(found.error_code) == 0 and bool(found.partitions)

        eventually(exists)
        time.sleep(SETTLING)

    def commit(self, group: str, member: str, epoch: int, name: str = "lines", partition: int = 0) -> None:
        """OffsetCommit, noted."""
        row = {"partition_index": partition, "committed_offset": 1, "committed_leader_epoch": -1}
        topics = [{"name": name, "partitions": [{**row, "committed_metadata": ""}]}]
        fields = {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
        self.note("commit", self.client.call(ApiKey.OFFSET_COMMIT, 9, fields).topics[0].partitions[0].error_code)

    def configure(self, group: str, **configs: str) -> None:
        """Set a group's own configs."""
        rows = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value} for key, value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": rows}
        answer = self.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
        self.note("configure", answer.responses[0].error_code)
        time.sleep(SETTLING)


def play(bootstrap: str) -> list[Fields]:
    """Every chapter; returns the answers."""
    story = Story(bootstrap)
    with story.client:
        for chapter in (_begin, _share, _refuse, _misfit, _end):
            chapter(story)
    return story.told


def _begin(story: Story) -> None:
    story.beat("wc", "a")
    story.describe("wc")
    story.create("lines", 2)
    story.beat("wc", "a", 2)
    story.await_topic("wc-words-repartition")
    story.await_topic("wc-words-changelog")
    story.beat("wc", "a", 3, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    story.describe("wc")
    story.beat("wc", "a", 4)


def _share(story: Story) -> None:
    story.beat("wc", "b", user_endpoint={"host": "b.example", "port": 7070})
    both = tasks(t0=[0, 1], t1=[0, 1])
    story.owned("wc", "a", 4, both, [])
    story.describe("wc")
    story.beat("wc", "b", 5)
    story.owned("wc", "a", 4, tasks(t0=[0], t1=[0]), [])
    story.owned("wc", "b", 5, [], [])
    story.commit("wc", "a", 3)
    story.commit("wc", "a", 4)
    story.commit("wc", "a", 99)
    story.commit("wc", "b", 4, partition=1)
    story.commit("wc", "b", 5, partition=1)
    story.commit("wc", "", -1)
    story.commit("wc", "nobody", 5)
    story.configure("wc", streams_num_standby_replicas="1")
    story.beat("wc", "a", 5)
    story.beat("wc", "b", 5)
    story.beat("wc", "b", 6, endpoint_information_epoch=1)
    story.describe("wc")


def _refuse(story: Story) -> None:
    for changes in (
        {"instance_id": "i"},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"warmup_tasks": tasks(t1=[0])},
        {"rebalance_timeout": -1},
        {"active_tasks": tasks(t0=[0])},
        {"active_tasks": None},
        {"topology": None},
        {"topology": {"epoch": 0, "subtopologies": [part(0, ["lines"])]}},
        {"topology": {"epoch": 0, "subtopologies": [part(0, ["lines"], source_topic_regex=["l.*"])]}},
        {"topology": {"epoch": 0, "subtopologies": [part(0, ["__consumer_offsets"])]}},
        {"topology": {"epoch": 0, "subtopologies": [part(0, ["no topic"])]}},
        {"topology": {"epoch": 0, "subtopologies": [part(0, ["lines"], state_changelog_topics=[topic("c", 3)])]}},
        {"member_id": " "},
        {"rack_id": ""},
    ):
        story.beat("wc", "c", **changes)
    for epoch, changes in (
        (-3, {}),
        (-2, {}),
        (1, {"topology": word_count("wc")}),
        (99, {}),
        (1, {}),
    ):
        story.beat("wc", "a", epoch, **changes)
    story.owned("wc", "a", 6, tasks(t0=[7]), [])
    story.owned("wc", "a", 6, tasks(t9=[0]), [])
    story.beat("wc", "nobody", 3)
    story.beat("nothing", "a", 3)
    story.beat("nothing", "a", -1)
    story.describe("nothing", "wc")


def _misfit(story: Story) -> None:
    story.create("three", 3)
    group = [{"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}]
    unequal = {"epoch": 0, "subtopologies": [part(0, ["lines", "three"], copartition_groups=group)]}
    story.beat("unequal", "a", topology=unequal)
    group = [{"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": [0]}]
    fixed = [
        part(0, ["three"], repartition_sink_topics=["fixed-repartition"]),
        part(1, ["lines"], repartition_source_topics=[topic("fixed-repartition", 5)], copartition_groups=group),
    ]
    story.beat("fixed", "a", topology={"epoch": 0, "subtopologies": fixed})
    loop = [part(0, [], repartition_source_topics=[topic("loop-r")], repartition_sink_topics=["loop-r"])]
    story.beat("loop", "a", topology={"epoch": 0, "subtopologies": loop})
    unwritten = [part(0, ["lines"], repartition_source_topics=[topic("unwritten-r")])]
    story.beat("unwritten", "a", topology={"epoch": 0, "subtopologies": unwritten})
    changelog = [part(0, ["lines"], state_changelog_topics=[topic("three")])]
    story.beat("wrong", "a", topology={"epoch": 0, "subtopologies": changelog})
    story.beat("unequal", "old", topology={**unequal, "epoch": 1})
    story.describe("unequal")


def _end(story: Story) -> None:
    listed = story.call(ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": ["streams"]})
    rows = [[group.group_id, group.protocol_type, group.group_state, group.group_type] for group in listed.groups]
    story.told.append({"listed": sorted(rows)})
    story.beat("wc", "b", 6, shutdown_application=True)
    story.beat("wc", "a", 6)
    story.beat("wc", "b", -1)
    _delete(story)
    joining = {"group_id": "wc", "session_timeout": 45_000, "rebalance_timeout": 60_000, "member_id": ""}
    protocols = [{"name": "range", "metadata": b""}]
    answer = story.client.call(ApiKey.JOIN_GROUP, 9, {**joining, "protocol_type": "consumer", "protocols": protocols})
    story.note("join", answer.error_code)
    fields = {"group_id": "wc", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000}
    fields |= {"subscribed_topic_names": ["lines"], "topic_partitions": []}
    story.told.append({"consumer": plain(story.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields))})
    deletion = {"group_id": "wc", "topics": [{"name": "lines", "partitions": [{"partition_index": 0}]}]}
    answer = story.client.call(ApiKey.OFFSET_DELETE, 0, deletion)
    story.note("delete offsets", answer.topics[0].partitions[0].error_code)
    story.beat("wc", "a", -1)
    story.describe("wc")
    story.commit("wc", "", -1)
    _delete(story)
    story.commit("plain", "", -1)
    story.beat("plain", "a", topology={"epoch": 0, "subtopologies": [part(0, ["lines"])]})


def _delete(story: Story) -> None:
    answer = story.client.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["wc"]})
    story.note("delete", answer.results[0].error_code)


def share_words(bootstrap: str) -> None:
    """Word count with members `a` and `b`, each with half of the tasks, records in `lines` and committed offsets."""
    story = Story(bootstrap)
    with story.client:
        story.create("lines", 2)
        story.beat("wc", "a")
        story.await_topic("wc-words-changelog")
        story.await_topic("wc-words-repartition")
        story.beat("wc", "a")
        story.owned("wc", "a", story.told[-1]["member_epoch"], [], [])
        story.beat("wc", "b")
        story.owned("wc", "a", story.told[-2]["member_epoch"], tasks(t0=[0], t1=[0]), [])
        story.beat("wc", "b", story.told[-2]["member_epoch"])
        for partition, member in ((0, "a"), (1, "b")):
            story.client.produce("lines", partition, batch([b"a b", b"b", b"c"]))
            epoch = next(
                told["member_epoch"] for told in reversed(story.told) if told.get("beat", ("", ""))[1] == member
            )
            story.commit("wc", member, epoch, partition=partition)
            assert story.told[-1] == {"commit": 0}, story.told


def close_words(bootstrap: str) -> None:
    """Let both members of word count leave."""
    story = Story(bootstrap)
    with story.client:
        story.beat("wc", "a", -1)
        story.beat("wc", "b", -1)


def visit(bootstrap: str, group: str, source: str) -> None:
    """A group with a member `a` that reads this topic, and a committed offset 1 of its partition 0."""
    story = Story(bootstrap)
    with story.client:
        topology = {"epoch": 0, "subtopologies": [part(0, [source])]}

        def has_tasks() -> bool:
            story.beat(group, "a", topology=topology)
            return bool(story.told[-1]["active_tasks"])

        eventually(has_tasks)
        story.commit(group, "a", story.told[-1]["member_epoch"], source)
        assert story.told[-1] == {"commit": 0}


def leave(bootstrap: str, group: str) -> None:
    """Let member `a` leave."""
    story = Story(bootstrap)
    with story.client:
        story.beat(group, "a", -1)


# -- the log -----------------------------------------------------------------------------------------------------------
def written(directory: pathlib.Path) -> list[Fields]:
    """The records of streams groups in `__consumer_offsets-0`, in order: key and value in hexadecimal. Times and hashes
    of topic ids are set to 0, after a check that the record is encoded as it was."""
    rows = []
    for segment in sorted((directory / "__consumer_offsets-0").glob("*.log")):
        for found in read_file_batches(segment.read_bytes()):
            columns = found.columns()
            for index in range(columns.count):
                key, value = columns.key(index), columns.value(index)
                if key is not None and int.from_bytes(key[:2], "big") in STREAMS_TYPES:
                    rows.append({"key": bytes(key).hex(), "value": _masked(bytes(key), value)})
    return rows


def _masked(key: bytes, value: bytes | None) -> str | None:
    if value is None:
        return None
    key_entity, entity = decode_record(key, bytes(value))
    assert encode_record(key_entity, entity) == (key, bytes(value))
    for name in ("metadata_hash", "assignment_timestamp"):
        if name in type(entity).__layout__.names:
            entity = entity.replaced(**{name: 0})
    return (encode_record(key_entity, entity)[1] or b"").hex()
