"""The quota connection_creation_rate of an IP address (KIP-612) on the embedded broker and on Apache Kafka."""

import pathlib
import time

import pytest
from support.apache_kafka import ApacheKafka
from support.broker_client import BrokerClient
from support.embedded import embedded_broker

pytestmark = pytest.mark.real_kafka
API_VERSIONS, ALTER_QUOTAS = 18, 49
ADDRESS = "127.0.0.9"
FREE = 10  # of one per second, over the ten seconds of ten windows


def set_rate(bootstrap: str, rate: float | None) -> None:
    host, port = bootstrap.rsplit(":", 1)
    entity = [{"entity_type": "ip", "entity_name": ADDRESS}]
    operation = {"key": "connection_creation_rate", "value": rate or 0.0, "remove": rate is None}
    with BrokerClient(host, int(port)) as client:
        entries = [{"entity": entity, "ops": [operation]}]
        answer = client.call(ALTER_QUOTAS, 1, entries=entries, validate_only=False)
        assert int(answer.entries[0].error_code) == 0


def closed_after_s(bootstrap: str) -> float | None:
    """The seconds after which a connection is closed without an answer; None: it was answered."""
    host, port = bootstrap.rsplit(":", 1)
    begun_s = time.monotonic()
    with BrokerClient(host, int(port), ADDRESS) as client:
        try:
            client.call(API_VERSIONS, 0)
        except (EOFError, OSError):
            return time.monotonic() - begun_s
    return None


def closed_ones(bootstrap: str) -> list[float]:
    """Connects until the quota is in force and exceeded; the seconds of three connections above it."""
    set_rate(bootstrap, 1.0)
    try:
        found: list[float] = []
        for _ in range(8 * FREE):
            after_s = closed_after_s(bootstrap)
            if after_s is not None:
                found.append(after_s)
            if len(found) == 2:
                break
        return found
    finally:
        set_rate(bootstrap, None)


def test_both_brokers_close_a_connection_above_the_rate_later(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        ours = closed_ones(bootstrap)
    theirs = closed_ones(real_kafka.bootstrap)
    assert len(ours) == len(theirs) == 2
    assert min(ours + theirs) > 0.05
    # Kafka closes them when the acceptor next wakes, which it does every half second; a busy machine can delay one.
    assert min(ours) < 3
    assert min(theirs) < 3
