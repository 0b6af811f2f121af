"""What the admin client does about brokers that move, refuse, are old or say nothing."""

from typing import Any

import pytest
from support.ports import free_port
from support.scripted_broker import CLOSE, SILENCE, ScriptedBroker, partition
from support.skipping_clock import SkippingClock
from support.waiting import eventually

from kafkatools.core import errors
from kafkatools.core.admin import acls, cluster, configs, offsets, quorum, reassignments, topics
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.net import requests
from kafkatools.core.protocol.api_versions import ApiKey

FAST = {
    "retry.backoff.ms": "1",
    "retry.backoff.max.ms": "2",
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "2",
}


def admin(broker: ScriptedBroker, **settings: str) -> AdminClient:
    given = {**FAST, **{name.replace("_", "."): value for name, value in settings.items()}}
    return AdminClient(broker.bootstrap, given, SystemClock())


def created(request: Any, code: int = 0) -> dict[str, Any]:
    return {"topics": [{"name": topic.name, "error_code": code} for topic in request.topics]}


def test_listing_takes_one_request_after_the_versions() -> None:
    broker = ScriptedBroker()
    broker.topics = [{"name": "b", "partitions": []}, {"name": "__consumer_offsets", "is_internal": True}]
    with broker.in_background(), admin(broker) as client:
        assert [(each.name, each.is_internal) for each in topics.list_topics(client)] == [
            ("b", False),
            ("__consumer_offsets", True),
        ]
    assert [header.api_key for header, _ in broker.requests] == [ApiKey.API_VERSIONS, ApiKey.METADATA]


def test_not_controller_leads_to_the_controller() -> None:
    second = ScriptedBroker({ApiKey.CREATE_TOPICS: lambda header, request: created(request)})
    first = ScriptedBroker({ApiKey.CREATE_TOPICS: lambda header, request: created(request, 41)})
    for broker in (first, second):
        broker.nodes = {1: second.port, 2: first.port}
    with first.in_background(), second.in_background(), admin(first) as client:
        assert topics.create_topics(client, [topics.NewTopic("a", 1, 1)])["a"].error is None
    assert first.count(ApiKey.CREATE_TOPICS) == 1
    assert second.count(ApiKey.CREATE_TOPICS) == 1


def test_controller_that_is_gone_is_left_for_any_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "UNREACHABLE_PATIENCE_MS", 200)
    codes = [41]
    say = {ApiKey.CREATE_TOPICS: lambda header, request: created(request, codes.pop() if codes else 0)}
    first, second = ScriptedBroker(say), ScriptedBroker(say)
    for broker in (first, second):
        broker.nodes = {1: second.port, 2: first.port}
    with first.in_background(), admin(first) as client:
        with second.in_background():
            assert topics.create_topics(client, [topics.NewTopic("a", 1, 1)])["a"].error is None
        first.nodes = {2: first.port}
        assert topics.create_topics(client, [topics.NewTopic("b", 1, 1)])["b"].error is None
    assert (first.count(ApiKey.CREATE_TOPICS), second.count(ApiKey.CREATE_TOPICS)) == (2, 1)


def say_controllers(*nodes: ScriptedBroker) -> None:
    """Make the brokers a quorum whose last node is active: the others refuse each request but DescribeCluster."""
    for node in nodes:
        node.answers[ApiKey.DESCRIBE_CLUSTER] = lambda header, request: {
            "controller_id": len(nodes) - 1,
            "cluster_id": "c",
            "endpoint_type": 2,
            "brokers": [{"broker_id": at, "host": "127.0.0.1", "port": one.port} for at, one in enumerate(nodes)],
        }
        node.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda header, request, node=node: {
            "responses": [
                {"resource_type": 2, "resource_name": "t", "error_code": 0 if node is nodes[-1] else 41},
            ]
        }
        node.answers[ApiKey.DESCRIBE_ACLS] = lambda header, request, node=node: (
            {"resources": []} if node is nodes[-1] else CLOSE
        )


def test_requests_through_controllers_go_to_the_active_one() -> None:
    standby, active = ScriptedBroker(), ScriptedBroker()
    say_controllers(standby, active)
    changes = {(configs.TOPIC, "t"): [configs.ConfigChange("retention.ms", "1")]}
    with (
        standby.in_background(),
        active.in_background(),
        AdminClient(standby.bootstrap, FAST, SystemClock(), through_controllers=True) as client,
    ):
        assert configs.incremental_alter_configs(client, changes) == {(configs.TOPIC, "t"): None}
        assert acls.describe_acls(client) == []
    assert {header.api_key for header, _ in standby.requests} == {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}


def test_connection_that_a_broker_closed_between_two_calls_is_made_anew() -> None:
    answer = {"results": [{"resource_type": 4, "resource_name": "1", "configs": []}]}
    broker = ScriptedBroker({ApiKey.DESCRIBE_CONFIGS: lambda header, request: answer})
    with broker.in_background(), admin(broker) as client:
        assert configs.describe_configs(client, [(configs.BROKER, "1")])[configs.BROKER, "1"].error is None
        broker.is_disconnecting = True
        eventually(lambda: not broker.is_disconnecting)
        assert configs.describe_configs(client, [(configs.BROKER, "1")])[configs.BROKER, "1"].error is None
    assert broker.count(ApiKey.DESCRIBE_CONFIGS) == 2


def test_answer_of_a_starting_broker_leaves_someone_to_ask() -> None:
    broker = ScriptedBroker()
    named: list[dict[int, int]] = [{}, {}, {1: broker.port}]

    def say_cluster(header: Any, request: Any) -> Any:
        broker.nodes = named.pop(0)
        return broker.say_cluster(header, request)

    broker.answers[ApiKey.METADATA] = say_cluster
    with broker.in_background(), admin(broker, default_api_timeout_ms="5000") as client:
        assert not client.metadata_of((), client.deadline_ms()).brokers
        assert client.brokers() == [1]
    assert named == []


def test_cluster_without_brokers_in_service_is_said_so() -> None:
    clock = SkippingClock()

    def say_cluster(header: Any, request: Any) -> Any:
        if broker.count(ApiKey.METADATA) > 1:
            clock.skip_ms(10 * 60_000)
        return broker.say_cluster(header, request)

    broker = ScriptedBroker({ApiKey.METADATA: say_cluster})
    broker.nodes = {}
    with (
        broker.in_background(),
        AdminClient(broker.bootstrap, FAST, clock) as client,
        pytest.raises(errors.NoBrokersAvailable, match="lists no live brokers"),
    ):
        client.brokers()


def test_quota_is_waited_for_only_when_wanted() -> None:
    codes = [89, 89, 0, 89]
    broker = ScriptedBroker({ApiKey.CREATE_TOPICS: lambda header, request: created(request, codes.pop(0))})
    with broker.in_background(), admin(broker) as client:
        assert topics.create_topics(client, [topics.NewTopic("a")])["a"].error is None
        refused = topics.create_topics(client, [topics.NewTopic("a")], retry_on_quota_violation=False)["a"].error
    assert isinstance(refused, errors.ThrottlingQuotaExceeded)


def test_item_without_an_answer_has_an_error() -> None:
    broker = ScriptedBroker({ApiKey.CREATE_TOPICS: lambda header, request: {"topics": []}})
    with broker.in_background(), admin(broker) as client:
        found = topics.create_topics(client, [topics.NewTopic("a")])["a"]
    assert str(found.error) == "The response has no result for a"


@pytest.mark.parametrize("name", ["other", "__cluster_metadata"])
def test_quorum_response_without_the_metadata_log_is_an_error(name: str) -> None:
    answer = {"topics": [{"topic_name": name, "partitions": [{"partition_index": 1}] if name == "other" else []}]}
    broker = ScriptedBroker({ApiKey.DESCRIBE_QUORUM: lambda header, request: answer})
    with (
        broker.in_background(),
        admin(broker) as client,
        pytest.raises(errors.UnknownServerError, match="The response has no result for __cluster_metadata"),
    ):
        quorum.describe_metadata_quorum(client)


def test_old_broker_is_described_through_metadata() -> None:
    broker = ScriptedBroker(versions={ApiKey.DESCRIBE_TOPIC_PARTITIONS: (9, 9), ApiKey.DESCRIBE_CLUSTER: (9, 9)})
    broker.topics = [
        {"name": "a", "partitions": [partition(1), partition(0)]},
        {"name": "b", "error_code": 3, "partitions": []},
    ]
    with broker.in_background(), admin(broker) as client:
        found = topics.describe_topics(client, names=["a", "b"])
        nodes = cluster.describe_cluster(client).nodes
    assert [part.partition for part in found["a"].partitions] == [0, 1]
    assert found["a"].partitions[0].elr is None
    assert isinstance(found["b"].error, errors.UnknownTopicOrPartition)
    assert [node.id for node in nodes] == [1]


def test_all_topics_are_described_page_by_page() -> None:
    pages = {
        None: (
            {"name": "a", "partitions": [{"partition_index": 1, "leader_id": 2, "replica_nodes": [2, 3]}]},
            ("a", 2),
        ),
        ("a", 2): ({"name": "a", "partitions": [{"partition_index": 2}, {"partition_index": 0}]}, ("b", 0)),
        ("b", 0): ({"name": "b", "error_code": 5, "partitions": []}, None),
    }

    def page(header: Any, request: Any) -> dict[str, Any]:
        assert (request.topics, request.response_partition_limit) == ((), 7)
        at = request.cursor
        topic, following = pages[None if at is None else (at.topic_name, at.partition_index)]
        cursor = None if following is None else dict(zip(("topic_name", "partition_index"), following, strict=True))
        return {"topics": [topic], "next_cursor": cursor}

    broker = ScriptedBroker({ApiKey.DESCRIBE_TOPIC_PARTITIONS: page})
    with broker.in_background(), admin(broker) as client:
        found = topics.describe_all_topics(client, partition_limit=7)
    assert [part.partition for part in found["a"].partitions] == [0, 1, 2]
    assert (found["a"].partitions[1].leader, found["a"].partitions[1].replicas) == (2, (2, 3))
    assert isinstance(found["b"].error, errors.LeaderNotAvailable)


def test_pages_that_repeat_themselves_are_an_error() -> None:
    def page(header: Any, request: Any) -> dict[str, Any]:
        topic = {"name": "a", "partitions": [{"partition_index": 0, "leader_id": 1}]}
        return {"topics": [topic], "next_cursor": {"topic_name": "a", "partition_index": 1}}

    broker = ScriptedBroker({ApiKey.DESCRIBE_TOPIC_PARTITIONS: page})
    with (
        broker.in_background(),
        admin(broker) as client,
        pytest.raises(errors.UnknownServerError, match="begins at a-1 again"),
    ):
        topics.describe_all_topics(client)


def test_all_topics_of_an_old_broker_are_described_through_metadata() -> None:
    broker = ScriptedBroker(versions={ApiKey.DESCRIBE_TOPIC_PARTITIONS: (9, 9)})
    broker.topics = [{"name": "a", "partitions": [partition(0)]}, {"name": "b", "error_code": 5, "partitions": []}]
    with broker.in_background(), admin(broker) as client:
        found = topics.describe_all_topics(client)
    assert [part.partition for part in found["a"].partitions] == [0]
    assert isinstance(found["b"].error, errors.LeaderNotAvailable)


def listed(request: Any, code: int = 0) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": part.partition_index, "offset": 40 + part.partition_index, "error_code": code}
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def test_leaders_are_asked_for_their_own_partitions_and_followed() -> None:
    answers = {ApiKey.LIST_OFFSETS: lambda header, request: listed(request)}
    first, second = ScriptedBroker(answers), ScriptedBroker(answers)
    stale = [6]

    def not_leader_once(header: Any, request: Any) -> Any:
        return listed(request, stale.pop() if stale else 0)

    first.answers[ApiKey.LIST_OFFSETS] = not_leader_once
    for broker in (first, second):
        broker.nodes = {1: first.port, 2: second.port}
        broker.topics = [{"name": "a", "partitions": [partition(0, leader=1), partition(1, leader=2)]}]
    with first.in_background(), second.in_background(), admin(first) as client:
        wanted = {("a", 0): offsets.LATEST, ("a", 1): offsets.LATEST, ("a", 7): offsets.LATEST}
        found = offsets.list_offsets(client, wanted)
    assert list(found) == list(wanted)
    assert (found["a", 0].offset, found["a", 1].offset) == (40, 41)
    assert isinstance(found["a", 7].error, errors.UnknownTopicOrPartition)
    assert first.count(ApiKey.LIST_OFFSETS) == 2
    assert second.count(ApiKey.LIST_OFFSETS) == 1


def test_special_timestamp_is_refused_by_an_old_broker() -> None:
    broker = ScriptedBroker(versions={ApiKey.LIST_OFFSETS: (1, 6)})
    broker.topics = [{"name": "a", "partitions": [partition(0)]}]
    with broker.in_background(), admin(broker) as client:
        found = offsets.list_offsets(client, {("a", 0): offsets.MAX_TIMESTAMP})["a", 0]
    assert isinstance(found.error, errors.UnsupportedVersion)
    assert broker.count(ApiKey.LIST_OFFSETS) == 0


def test_request_is_sent_again_when_the_connection_is_lost() -> None:
    answers: list[Any] = [CLOSE, {}]
    broker = ScriptedBroker({ApiKey.DESCRIBE_CLUSTER: lambda header, request: answers.pop(0)})
    with broker.in_background(), admin(broker) as client:
        assert cluster.describe_cluster(client).nodes == ()
    assert broker.count(ApiKey.DESCRIBE_CLUSTER) == 2


def test_time_out_says_so() -> None:
    broker = ScriptedBroker({ApiKey.METADATA: lambda header, request: SILENCE})
    with (
        broker.in_background(),
        admin(broker, default_api_timeout_ms="80") as client,
        pytest.raises(errors.Timeout, match=r"within \d\d ms"),  # of what is left for the request
    ):
        topics.list_topics(client)


def test_server_that_is_not_kafka_is_an_error_at_once() -> None:
    broker = ScriptedBroker({ApiKey.API_VERSIONS: lambda header, request: b"HTTP/1.1 400 Bad Request\r\n"})
    with broker.in_background(), admin(broker) as client, pytest.raises(errors.NotKafka, match="an HTTP server"):
        topics.list_topics(client)


def test_unreachable_broker_is_named_when_the_time_is_over() -> None:
    port = free_port()
    settings = {**FAST, "default.api.timeout.ms": "1000"}
    with (
        AdminClient(f"127.0.0.1:{port}", settings, SystemClock()) as client,
        pytest.raises(errors.ConnectionFailed, match=f"Connection to 127.0.0.1:{port} failed: Connection refused"),
    ):
        topics.list_topics(client)


def test_broker_that_may_not_tell_has_no_reassignments() -> None:
    broker = ScriptedBroker({ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: {"error_code": 31}})
    with broker.in_background(), admin(broker) as client:
        assert reassignments.list_reassignments(client) == {}


def test_reassignments_are_told_per_partition() -> None:
    moving = {"partition_index": 3, "replicas": (1, 2, 3), "adding_replicas": (3,), "removing_replicas": (1,)}
    said = {"topics": [{"name": "a", "partitions": [moving]}]}
    broker = ScriptedBroker({ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: said})
    with broker.in_background(), admin(broker) as client:
        assert reassignments.list_reassignments(client) == {("a", 3): ((1, 2, 3), (3,), (1,))}


def test_each_broker_is_asked_for_its_own_configuration() -> None:
    def describe(node: int) -> Any:
        def say(header: Any, request: Any) -> dict[str, Any]:
            entry = {"name": "x", "value": str(node), "config_source": 5}
            return {
                "results": [
                    {"resource_type": each.resource_type, "resource_name": each.resource_name, "configs": [entry]}
                    for each in request.resources
                ]
            }

        return {ApiKey.DESCRIBE_CONFIGS: say}

    first, second = ScriptedBroker(describe(1)), ScriptedBroker(describe(2))
    for broker in (first, second):
        broker.nodes = {1: first.port, 2: second.port}
    with first.in_background(), second.in_background(), admin(first) as client:
        keys = [(configs.BROKER, "1"), (configs.BROKER, "2"), (configs.BROKER, "9")]
        found = configs.describe_configs(client, keys[:2])
    assert [found[key].entries[0].value for key in keys[:2]] == ["1", "2"]
    assert found[keys[0]].entries[0].is_default
