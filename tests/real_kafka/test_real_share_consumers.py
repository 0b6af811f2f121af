"""Share consumers of Apache Kafka and ours, each on Apache Kafka and on the embedded broker, have the same results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.share_member import by_kafkas_client, by_our_client

import kafkatools

pytestmark = pytest.mark.real_kafka

GROUPS = ("explicit", "left", "fixed", "pair")
OPENED = [
    "open e group.id=explicit share.acknowledgement.mode=explicit share.acquire.mode=record_limit max.poll.records=6",
    "open l group.id=left share.acknowledgement.mode=explicit",
    "open f group.id=fixed share.acknowledgement.mode=explicit",
    "open p group.id=pair share.acquire.mode=record_limit max.poll.records=4",
    "open q group.id=pair share.acquire.mode=record_limit max.poll.records=4",
    "open x group.id=explicit auto.offset.reset=earliest isolation.level=read_committed",
    "poll e 10",
]
STORY = [
    *OPENED,
    *(f"subscribe {name} TOPIC" for name in "elfp"),
    *(f"poll {name} 0" for name in "elfp"),  # all groups begin while the first one waits
    "poll e 30000",
    "poll e 10",
    "ack e TOPIC 0 0 ACCEPT",
    "ack e TOPIC 0 1 RELEASE",
    "ack e TOPIC 0 1 REJECT",
    "ack e TOPIC 0 2 RENEW",
    "commit-sync e",
    "ack e TOPIC 0 0 ACCEPT",
    "ack e TOPIC 0 2 ACCEPT",
    "ack e TOPIC 0 3 REJECT",
    "ack e TOPIC 0 4 ACCEPT",
    "ack e TOPIC 0 5 ACCEPT",
    "poll e 5000",
    "ack e TOPIC 0 2 ACCEPT",
    "poll e 5000",
    "commit-sync e",
    "close e",
    "open e group.id=explicit",
    "subscribe e TOPIC",
    "poll e 30000",
    "commit-sync e",
    "commit-sync e",
    "close e",
    "poll l 30000",
    *(f"ack l TOPIC 0 {offset} ACCEPT" for offset in range(10)),
    "unsubscribe l",
    "commit-sync l",
    "close l",
    "poll f 30000",
    *(f"ack f TOPIC 0 {offset} RENEW" for offset in range(10)),
    "commit-sync f",
    "close f",
    "poll p 30000",
    "subscribe q TOPIC",
    "poll q 30000",
    "poll p 5000",
    "close q",
    "poll p 5000",
]


@pytest.fixture(scope="module")
def results(real_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """What each client says on each broker, without the names of topics and groups."""
    with embedded_broker(tmp_path_factory.mktemp("embedded")) as embedded, ThreadPoolExecutor(4) as pool:
        brokers = {"Apache Kafka": real_kafka.bootstrap, "embedded": embedded}
        clients = {"kafka": by_kafkas_client, "ours": by_our_client}
        running = {
            (broker, client): pool.submit(_tell, brokers[broker], client, tell)
            for broker in brokers
            for client, tell in clients.items()
        }
        return {key: told.result() for key, told in running.items()}


def _tell(bootstrap: str, client: str, tell: Callable[[list[str]], list[str]]) -> list[str]:
    topic = f"shared-by-{client}"
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(kafkatools.NewTopic(topic, 1, 1))
        for group in GROUPS:
            settings = {"share.auto.offset.reset": "earliest"}
            if group == "fixed":
                settings["share.renew.acknowledge.enable"] = "false"
            admin.alter_configs({("group", f"{topic}-{group}"): settings})
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(10)]).result()
    start = f"bootstrap.servers={bootstrap} group.id={topic}-"
    story = [line.replace("TOPIC", topic).replace("group.id=", start) for line in STORY]
    return [line.replace(topic, "TOPIC") for line in tell(story)]


def test_kafkas_client_finds_no_difference_between_the_brokers(results: dict[tuple[str, str], list[str]]) -> None:
    assert results["embedded", "kafka"] == results["Apache Kafka", "kafka"]
    assert len(results["embedded", "kafka"]) == len(STORY)


@pytest.mark.parametrize("broker", ["Apache Kafka", "embedded"])
def test_our_client_does_what_kafkas_does(results: dict[tuple[str, str], list[str]], broker: str) -> None:
    ours, kafkas = results[broker, "ours"], results["Apache Kafka", "kafka"]
    # Settings that do not go with share groups have the same message, the exception another name.
    assert [line.replace("ConfigError", "Config") for line in ours] == kafkas
