"""The APIs of streams groups over the wire, held against Apache Kafka 4.3.1: answers, and records byte for byte.

tests/golden/groups/streams_story.json.gz was recorded by playing tests/support/streams_story.py on Apache Kafka.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import streams_story
from support.group_scenarios import plain
from support.streams_story import BEAT, DESCRIBE, Story, part, tasks, word_count
from support.waiting import eventually

from kafkatools.core.protocol.api_versions import ApiKey

RECORDED = pathlib.Path(__file__).parents[5] / "golden" / "groups" / "streams_story.json.gz"
STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
QUICK = {
    "group.streams.min.heartbeat.interval.ms": "10",
    "group.streams.heartbeat.interval.ms": "10",
    "group.streams.min.session.timeout.ms": "200",
    "group.streams.session.timeout.ms": "200",
}
StoryOf = Callable[[dict[str, str]], Story]
READ, CREATE, ALTER, DESCRIBE_RIGHT = 3, 5, 7, 8
LITERAL, PREFIXED, ALLOW = 3, 4, 3
TOPIC, GROUP, CLUSTER = 2, 3, 4
MISSING_INTERNAL_TOPICS, ASSIGNMENT_DELAYED = 3, 5
GROUP_REFUSED, TOPIC_REFUSED, UNSUPPORTED = 30, 29, 35


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_story, "SETTLING", 0)


@pytest.fixture
def story_of(run_node: Callable[..., Any]) -> Iterator[StoryOf]:
    """Starts a node with these settings, and a story on it."""
    made: list[Story] = []

    def start(settings: dict[str, str]) -> Story:
        made.append(Story(f"127.0.0.1:{run_node(settings).node.listener.port}"))
        return made[-1]

    yield start
    for story in made:
        story.client.__exit__()


def ready(story: Story, group: str = "wc") -> None:
    """A member `a` with all tasks."""
    story.client.create_topic("lines", 2)
    story.beat(group, "a")
    story.await_topic(f"{group}-words-changelog")
    story.owned(group, "a", story.told[-1]["member_epoch"], [], [])


def test_answers_and_records_are_kafkas(run_node: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    running = run_node(streams_story.SETTINGS)
    told = streams_story.play(f"127.0.0.1:{running.node.listener.port}")
    running.stop()
    assert json.loads(json.dumps(told)) == recorded["told"]
    assert streams_story.written(tmp_path / "data") == recorded["written"]


def test_groups_outlive_the_node(run_node: Callable[..., Any], story_of: StoryOf) -> None:
    running = run_node(streams_story.SETTINGS)
    first = Story(f"127.0.0.1:{running.node.listener.port}")
    with first.client:
        ready(first)
        first.beat("wc", "b")
        first.describe("wc")
    before = first.told[-1]
    running.stop()
    story = story_of(streams_story.SETTINGS)
    story.describe("wc")
    # Numbers of partitions are known again with the first heartbeat.
    for told in (before, story.told[-1]):
        del told["describe"][0]["topology"]
    assert story.told[-1] == before
    epoch = next(member["member_epoch"] for member in before["describe"][0]["members"] if member["member_id"] == "a")
    story.owned("wc", "a", epoch, tasks(t0=[0], t1=[0]), [])
    assert story.told[-1]["error_code"] == 0


def test_first_tasks_wait_for_more_members(story_of: StoryOf) -> None:
    settings = {**streams_story.SETTINGS, "group.streams.initial.rebalance.delay.ms": "300"}
    story = story_of(settings)
    story.client.create_topic("lines", 2)
    topology = {"epoch": 0, "subtopologies": [part(0, ["lines"])]}
    for member in ("a", "b"):
        story.beat("g", member, topology=topology)
        delayed = {"status_code": ASSIGNMENT_DELAYED}
        delayed["status_detail"] = "Assignment delayed due to the configured initial rebalance delay."
        assert (story.told[-1]["status"], story.told[-1]["active_tasks"]) == ([delayed], [])

    def has_task() -> bool:
        story.beat("g", "a", 1)
        return bool(story.told[-1]["active_tasks"])

    eventually(has_task)
    story.beat("g", "b", 1)
    assert len(story.told[-1]["active_tasks"][0]["partitions"]) == 1


def test_silent_member_is_removed(story_of: StoryOf) -> None:
    story = story_of({**streams_story.SETTINGS, **QUICK})
    ready(story)

    def is_empty() -> bool:
        story.describe("wc")
        return bool(story.told[-1]["describe"][0]["group_state"] == "Empty")

    eventually(is_empty)
    assert story.told[-1]["describe"][0]["members"] == []


def allow(story: Story, kind: int, name: str, operation: int, principal: str = "User:ANONYMOUS") -> None:
    rule = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": LITERAL if kind == CLUSTER else PREFIXED,
    }
    rule |= {"principal": principal, "host": "*", "operation": operation, "permission_type": ALLOW}
    assert story.client.call(ApiKey.CREATE_ACLS, 3, {"creations": [rule]}).results[0].error_code == 0


def test_rights_of_the_member_count(story_of: StoryOf) -> None:
    story = story_of({**streams_story.SETTINGS, **STANDARD, "allow.everyone.if.no.acl.found": "true"})
    story.client.create_topic("lines", 2)
    allow(story, CLUSTER, "kafka-cluster", ALTER)
    allow(story, TOPIC, "wc-", DESCRIBE_RIGHT)
    story.beat("wc", "a")
    refused = "Unauthorized to CREATE on topics wc-words-changelog, wc-words-repartition."
    (status,) = story.told[-1]["status"]
    assert (status["status_code"], status["status_detail"].split("; ")[1]) == (MISSING_INTERNAL_TOPICS, refused)
    allow(story, TOPIC, "wc-", CREATE)
    story.beat("wc", "a", story.told[-1]["member_epoch"])
    story.await_topic("wc-words-changelog")
    allow(story, TOPIC, "other-", DESCRIBE_RIGHT, "User:other")
    story.beat("other", "a", topology=word_count("other"))
    assert story.told[-1]["error_code"] == TOPIC_REFUSED
    allow(story, TOPIC, "lines", READ, "User:other")
    story.describe("wc")
    hidden = "The described group uses topics that the client is not authorized to describe."
    described = story.told[-1]["describe"][0]
    assert (described["error_code"], described["error_message"], described["members"]) == (TOPIC_REFUSED, hidden, [])
    allow(story, GROUP, "wc", DESCRIBE_RIGHT, "User:other")
    story.beat("wc", "a")
    assert story.told[-1]["error_code"] == GROUP_REFUSED
    story.describe("wc")
    assert story.told[-1]["describe"][0]["error_code"] == GROUP_REFUSED


def test_failed_creation_is_told_to_the_member(story_of: StoryOf) -> None:
    story = story_of(streams_story.SETTINGS)
    story.client.create_topic("lines", 1)
    wrong = part(0, ["lines"], state_changelog_topics=[streams_story.topic("store", cleanup_policy="keep")])
    story.beat("g", "a", topology={"epoch": 0, "subtopologies": [wrong]})
    story.beat("g", "a", 2)
    detail = story.told[-1]["status"][0]["status_detail"]
    assert detail.startswith("Internal topics are missing: store; Creation failed: store (Invalid value keep")


@pytest.mark.parametrize("settings", [{"group.coordinator.rebalance.protocols": "classic,consumer"}], ids=["protocol"])
def test_protocol_can_be_ruled_out(story_of: StoryOf, settings: dict[str, str]) -> None:
    story = story_of(settings)
    story.beat("g", "a")
    assert story.told[-1]["error_code"] == UNSUPPORTED
    request = {"group_ids": ["g"], "include_authorized_operations": False}
    assert plain(story.client.call(DESCRIBE, 0, request))["groups"][0]["error_code"] == UNSUPPORTED
    assert BEAT.last_version == 0
