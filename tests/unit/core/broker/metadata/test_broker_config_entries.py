"""DescribeConfigs of a broker against the entries that Apache Kafka 4.3.1 gives, and settings that cannot be read."""

import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.raw_client import RawClient

from kafkatools.core.config import BROKER as BROKER_TABLE
from kafkatools.core.protocol.api_versions import ApiKey

RECORDED = pathlib.Path(__file__).parents[4] / "golden/config/broker_entries.tsv"
NOT_DYNAMIC_HERE = {"listeners", "listener.security.protocol.map"}
BROKER, LOGGER = 4, 8


@pytest.fixture
def restore_level() -> Iterator[None]:
    logger = logging.getLogger("kafkatools")
    level = logger.level
    yield
    logger.setLevel(level)


def describe(client: RawClient, kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    fields = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, fields).results
    assert int(result.error_code) == 0, result
    return {entry.name: entry for entry in result.configs}


def alter(client: RawClient, kind: int, name: str, key: str, operation: int, value: str | None) -> int:
    config = {"name": key, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    fields = {"resources": [resource], "validate_only": False}
    return int(client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses[0].error_code)


def test_a_broker_has_kafkas_entries_with_their_types(run_node: Callable[..., Any]) -> None:
    with RawClient(run_node().node.bootstrap) as client:
        entries = describe(client, BROKER, "1")
    ours = {
        name: (str(int(entry.config_type)), str(entry.read_only).lower(), str(entry.is_sensitive).lower())
        for name, entry in entries.items()
        if not BROKER_TABLE[name].is_ours and name not in NOT_DYNAMIC_HERE
    }
    lines = [line.split("\t") for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    assert ours == {name: tuple(rest) for name, *rest in lines if name not in NOT_DYNAMIC_HERE}
    assert all(entries[name].read_only for name in NOT_DYNAMIC_HERE)
    assert all(entry.documentation for entry in entries.values())


def test_a_secret_is_never_told(run_node: Callable[..., Any]) -> None:
    running = run_node({"ssl.keystore.password": "hunter2", "listener.name.x.ssl.key.password": "hunter2"})
    with RawClient(running.node.bootstrap) as client:
        entry = describe(client, BROKER, "1", ["ssl.keystore.password"])["ssl.keystore.password"]
        assert (entry.value, entry.is_sensitive) == (None, True)
        assert [synonym.value for synonym in entry.synonyms] == [None]
        assert "hunter2" not in repr(describe(client, BROKER, "1"))


def test_the_logger_is_the_one_that_logs(run_node: Callable[..., Any], restore_level: None) -> None:
    with RawClient(run_node().node.bootstrap) as client:
        for level, number in (("DEBUG", logging.DEBUG), ("ERROR", logging.ERROR)):
            assert alter(client, LOGGER, "1", "root", 0, level) == 0
            assert logging.getLogger("kafkatools").level == number
            assert describe(client, LOGGER, "1")["root"].value == level
        assert alter(client, LOGGER, "1", "root", 1, None) == 42


def test_a_setting_for_all_brokers_creates_topics_with_it(run_node: Callable[..., Any]) -> None:
    node = run_node().node
    with RawClient(node.bootstrap) as client:
        assert alter(client, BROKER, "", "num.partitions", 0, "5") == 42
        assert alter(client, BROKER, "", "log.segment.bytes", 0, "2000000") == 0
        client.create_topic("t")
    assert node.replicas.get("t", 0).log.config.segment_bytes == 2_000_000
