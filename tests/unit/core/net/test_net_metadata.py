"""What a client knows of the cluster and when it asks again."""

import uuid
from typing import Any

from support.scripted_broker import partition

from kafkatools.core.errors import TopicAuthorizationFailed
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Metadata, NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, response_type

ID = uuid.UUID(int=1)
OTHER_ID = uuid.UUID(int=2)


def metadata(topics: list[str] | None = None, **options: Any) -> Metadata:
    backoff = ExponentialBackoff(100, 1000, random=lambda: 0.5)
    return Metadata([("h", 1)], backoff=backoff, topics=topics if topics is not None else ["a", "b"], **options)


def answer(*topics: dict[str, Any], version: int = 12, brokers: tuple[int, ...] = (1, 2)) -> Any:
    nodes = [{"node_id": node, "host": "h", "port": 9000 + node} for node in brokers]
    return build(response_type(ApiKey.METADATA, version), {"brokers": nodes, "topics": topics, "controller_id": 2})


def topic(name: str, *partitions: dict[str, Any], topic_id: uuid.UUID | None = ID, error: int = 0) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "partitions": partitions, "error_code": error}


def test_view_answers_what_clients_ask() -> None:
    known = metadata()
    parts = (partition(1, leader=9), partition(0, leader=2, epoch=5))
    known.update(0, answer(topic("a", *parts), topic("z", partition(0))), False, 10)
    view = known.cluster
    assert view.partition_count("a") == 2
    assert view.partition_count("z") is None
    assert view.available_partitions("a") == [0]
    assert (view.leader_id("a", 0), view.leader_epoch("a", 0)) == (2, 5)
    assert view.leader_id("a", 1) is None
    assert (view.topic_id("a"), view.topic_name(ID)) == (ID, "a")
    assert view.controller is not None
    assert view.controller.port == 9002
    assert not view.is_bootstrap


def test_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0, leader=1, epoch=5))), False, 1)
    known.update(0, answer(topic("a", partition(0, leader=2, epoch=4))), False, 2)
    assert (known.cluster.leader_id("a", 0), known.cluster.leader_epoch("a", 0)) == (1, 5)
    known.update(0, answer(topic("a", partition(0, leader=2, epoch=6))), False, 3)
    assert known.cluster.leader_id("a", 0) == 2


def test_topic_made_anew_may_begin_with_a_lower_epoch() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0, leader=1, epoch=5))), False, 1)
    known.update(0, answer(topic("a", partition(0, leader=2, epoch=0), topic_id=OTHER_ID)), False, 2)
    assert (known.cluster.leader_id("a", 0), known.cluster.leader_epoch("a", 0)) == (2, 0)


def test_epochs_of_old_answers_are_ignored() -> None:
    known = metadata()
    old = partition(0, leader=1, epoch=5)
    known.update(0, answer({"name": "a", "partitions": [old]}, version=8), False, 1)
    assert known.cluster.leader_epoch("a", 0) is None


def test_leader_named_by_another_answer_is_taken_over_when_newer() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0, leader=1, epoch=5))), False, 1)
    endpoint = NodeEndpoint(3, "new", 9003, None)
    assert not known.update_partition_leadership({("a", 0): (2, 5)})
    assert not known.update_partition_leadership({("a", 0): (3, 6)})
    assert known.update_partition_leadership({("a", 0): (3, 6)}, [endpoint])
    assert known.cluster.leader_id("a", 0) == 3
    assert known.cluster.nodes[3].host == "new"
    known.update(0, answer(topic("a", partition(0, leader=1, epoch=5)), brokers=(1, 2, 3)), False, 2)
    assert known.cluster.leader_id("a", 0) == 3


def test_failed_requests_back_off_and_success_waits_for_max_age() -> None:
    known = metadata(max_age_ms=1000)
    assert known.time_to_next_update_ms(50) == 0
    known.failed_update(50)
    assert known.time_to_next_update_ms(50) == 100
    known.failed_update(150)
    assert known.time_to_next_update_ms(150) == 200
    known.update(0, answer(topic("a", partition(0))), False, 400)
    assert known.time_to_next_update_ms(400) == 1000
    assert known.time_to_next_update_ms(1400) == 0
    known.request_update()
    assert known.time_to_next_update_ms(400) == 0


def test_answers_without_news_are_not_asked_for_in_a_loop() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0))), False, 0)
    known.update(0, answer(topic("a", partition(0))), False, 10)
    known.request_update(reset_backoff=False)
    assert known.time_to_next_update_ms(10) == 100


def test_topic_error_is_kept_and_a_stale_one_asks_again() -> None:
    known = metadata()
    known.update(0, answer(topic("a", error=29), topic("b", partition(0))), False, 1)
    assert known.cluster.topic_errors == {"a": TopicAuthorizationFailed}
    assert not known.update_requested
    known.update(0, answer(topic("a", error=3), topic("b", partition(0))), False, 2)
    assert known.update_requested
    known.update(0, answer(topic("a", partition(0, error=5))), False, 3)
    assert known.update_requested


def test_partial_answer_leaves_other_topics_alone() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0))), False, 1)
    known.request_update_for_new_topics()
    fields, request_version, is_partial = known.next_request(2)
    assert is_partial
    known.update(request_version, answer(topic("b", partition(0), topic_id=OTHER_ID)), True, 2)
    assert set(known.cluster.topics) == {"a", "b"}
    assert not known.update_requested
    assert known.update_version == 2


def test_answer_to_an_older_question_leaves_the_newer_one_open() -> None:
    known = metadata()
    _, request_version, _ = known.next_request(0)
    known.request_update_for_new_topics()
    known.update(request_version, answer(topic("a", partition(0))), False, 1)
    assert known.update_requested


def test_interest_in_all_topics_asks_for_all() -> None:
    known = metadata()
    known.set_topics(None)
    assert known.next_request(0)[0]["topics"] is None
    known.update(1, answer(topic("x", partition(0))), False, 1)
    assert known.cluster.partition_count("x") == 1


def test_rebootstrap_after_a_long_silence() -> None:
    known = metadata(rebootstrap_trigger_ms=500)
    known.update(0, answer(topic("a", partition(0))), False, 1)
    known.begin_update(1000)
    assert not known.needs_rebootstrap(1500)
    assert known.needs_rebootstrap(1501)
    known.rebootstrap(1501)
    assert list(known.cluster.nodes) == [-1]
    assert known.update_requested
    assert not known.needs_rebootstrap(1501)


def test_newer_epoch_seen_elsewhere_asks_for_metadata() -> None:
    known = metadata()
    known.update(0, answer(topic("a", partition(0, epoch=5))), False, 1)
    assert not known.update_last_seen_epoch_if_newer("a", 0, 5)
    assert not known.update_requested
    assert known.update_last_seen_epoch_if_newer("a", 0, 6)
    assert known.update_requested
