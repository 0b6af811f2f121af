"""What a broker keeps of its logs: leader epochs, producers across a clean restart, what is flushed."""

import pathlib
from collections.abc import Callable
from typing import Any

from support.broker_client import BrokerClient, batch

from kafkatools.core.clock import SystemClock

CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS = 19, 44
BROKER = 4
LONG_AGO_MS = 1_700_000_000_000


def create(client: BrokerClient, name: str = "t", **configs: str) -> None:
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1, "configs": entries}]
    assert client.call(CREATE_TOPICS, 7, topics=topics, timeout=1000).topics[0].error_code == 0


def sequenced(sequence: int, records: int = 1, **header: Any) -> bytes:
    values = [b"v%d" % (sequence + number) for number in range(records)]
    header.setdefault("timestamp", SystemClock().wall_ms())
    return batch(values, producer_id=7, producer_epoch=0, base_sequence=sequence, **header)


def test_becoming_leader_notes_where_the_epoch_begins(run_node: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    create(run_node().connect())
    assert (tmp_path / "data" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_five_unacknowledged_batches_retried_after_a_clean_restart_keep_their_offsets(
    run_node: Callable[..., Any],
) -> None:
    running = run_node()
    client = running.connect()
    create(client)
    sizes = (3, 1, 4, 1, 5, 9, 2)
    sent = []
    sequence = 0
    for size in sizes:
        sent.append((sequence, size))
        assert client.produce("t", sequenced(sequence, size)).base_offset == sequence
        sequence += size
    running.stop()
    client = run_node().connect()
    for start, size in sent[-5:]:
        answer = client.produce("t", sequenced(start, size))
        assert (answer.error_code, answer.base_offset) == (0, start)
    answer = client.produce("t", sequenced(sequence))
    assert (answer.error_code, answer.base_offset) == (0, sequence)


def test_producers_that_are_silent_too_long_are_forgotten(run_node: Callable[..., Any]) -> None:
    settings = {"producer.id.expiration.ms": "1", "producer.id.expiration.check.interval.ms": "1"}
    running = run_node(settings)
    client = running.connect()
    create(client)
    assert client.produce("t", sequenced(0, timestamp=LONG_AGO_MS)).error_code == 0
    producers = running.node.replicas.get("t", 0).log.producer_state.producers
    for _ in range(1000):  # each round is a turn of the broker
        client.call(18, 0)
        if not producers:
            break
    assert client.produce("t", sequenced(5)).error_code == 0  # unknown by now: may begin anywhere


def test_a_changed_expiration_of_producers_reaches_open_logs(run_node: Callable[..., Any]) -> None:
    running = run_node({"producer.id.expiration.check.interval.ms": "1"})
    client = running.connect()
    create(client)
    an_hour_ago = SystemClock().wall_ms() - 3_600_000
    assert client.produce("t", sequenced(0, timestamp=an_hour_ago)).error_code == 0
    producers = running.node.replicas.get("t", 0).log.producer_state.producers
    assert producers
    configs = [{"name": "producer.id.expiration.ms", "config_operation": 0, "value": "1000"}]
    resources = [{"resource_type": BROKER, "resource_name": "", "configs": configs}]
    assert client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=resources).responses[0].error_code == 0
    for _ in range(1000):  # each round is a turn of the broker
        client.call(18, 0)
        if not producers:
            break
    assert client.produce("t", sequenced(5)).error_code == 0  # unknown by now: may begin anywhere


def test_flush_messages_is_the_most_that_is_not_durable(run_node: Callable[..., Any]) -> None:
    running = run_node()
    client = running.connect()
    create(client, flush_messages="3")
    log = running.node.replicas.get("t", 0).log
    client.produce("t", batch([b"a", b"b"]))
    assert log.recovery_point == 0
    client.produce("t", batch([b"c"]))
    assert log.recovery_point == 3
