"""Log lines of clients: kind and ids as in Kafka's LogContext, the caller's file, arguments left to logging."""

from __future__ import annotations

import logging
import pathlib

import pytest
from support.manual_clock import ManualClock

from kafkatools import KafkaError, Producer
from kafkatools.core import config as tables
from kafkatools.core.client_log import ClientLog, log_prefix
from kafkatools.core.config import Config
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient

LOGGER = logging.getLogger("kafkatools.sample")


@pytest.mark.parametrize(
    ("config", "prefix"),
    [
        (Config(tables.PRODUCER, {"client.id": "app"}), "[Producer clientId=app] "),
        (
            Config(tables.PRODUCER, {"client.id": "app", "transactional.id": "t"}),
            "[Producer clientId=app, transactionalId=t] ",
        ),
        (Config(tables.CONSUMER, {"client.id": "app", "group.id": "g"}), "[Consumer clientId=app, groupId=g] "),
        (
            Config(tables.CONSUMER, {"client.id": "app", "group.id": "g", "group.instance.id": "i"}),
            "[Consumer instanceId=i, clientId=app, groupId=g] ",
        ),
        (Config(tables.ADMIN, {"client.id": "app"}), "[AdminClient clientId=app] "),
        (Config(tables.PRODUCER), "[Producer] "),
    ],
)
def test_lines_begin_with_the_ids_that_kafkas_have(config: Config, prefix: str) -> None:
    assert log_prefix(config) == prefix


def test_a_line_names_the_file_that_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    ClientLog(LOGGER, "[Producer clientId=100%s] ").warning("%s-%d failed", "t", 3)
    (record,) = caplog.records
    assert record.getMessage() == "[Producer clientId=100%s] t-3 failed"
    assert (record.name, record.levelname, record.filename) == (LOGGER.name, "WARNING", pathlib.Path(__file__).name)


def test_lines_below_the_level_are_not_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    ClientLog(LOGGER, "[Producer] ").debug("%d", "no number")
    assert not caplog.records


def test_failed_connections_name_client_and_node(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(tables.CONSUMER, {"client.id": "app", "group.id": "g"})
    client = NetworkClient(config, ManualClock(), Metadata([("127.0.0.1", 9092)]))
    client.failures.failed(1, KafkaError("node 1 (127.0.0.1:9092) closed the connection"), 0)
    client.close()
    assert caplog.messages == ["[Consumer clientId=app, groupId=g] node 1 (127.0.0.1:9092) closed the connection"]


def test_idempotence_that_is_disabled_names_the_producer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Producer(bootstrap_servers="127.0.0.1:1", client_id="app", acks="1").close()
    assert "[Producer clientId=app] Idempotence will be disabled because acks is set to 1." in caplog.messages
