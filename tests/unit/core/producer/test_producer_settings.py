"""Settings of the producer that depend on each other (KIP-679), and what the futures of a closed producer say."""

from __future__ import annotations

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.producer.assembly import assemble, delivery_timeout_ms, is_idempotent
from kafkatools.core.producer.compression_ratio import CompressionRatioEstimator
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.compression import CompressionType

BOOTSTRAP = {"bootstrap.servers": "127.0.0.1:1"}


def config(**values: object) -> Config:
    return Config(PRODUCER, {**BOOTSTRAP, **{name.replace("_", "."): value for name, value in values.items()}})


def test_idempotence_is_on_by_default() -> None:
    assert is_idempotent(config())


@pytest.mark.parametrize("values", [{"acks": "1"}, {"acks": "0"}, {"retries": 0}])
def test_idempotence_gives_way_to_settings_that_contradict_it(values: dict[str, object]) -> None:
    assert not is_idempotent(config(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"acks": "1"}, "Must set acks to all in order to use the idempotent producer"),
        ({"retries": 0}, "Must set retries to non-zero when using the idempotent producer."),
    ],
)
def test_idempotence_that_was_asked_for_does_not_give_way(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        is_idempotent(config(enable_idempotence="true", **values))


@pytest.mark.parametrize("values", [{}, {"enable_idempotence": "true"}, {"acks": "1"}, {"retries": 0}])
def test_more_requests_in_flight_than_idempotence_allows_are_refused(values: dict[str, object]) -> None:
    message = r"max\.in\.flight\.requests\.per\.connection must be set to at most 5\. Current value is 6\."
    with pytest.raises(ConfigError, match=message):
        is_idempotent(config(max_in_flight_requests_per_connection=6, **values))
    assert not is_idempotent(config(max_in_flight_requests_per_connection=6, enable_idempotence="false"))


def test_a_delivery_timeout_that_is_too_short_is_refused_when_it_was_given() -> None:
    with pytest.raises(ConfigError, match="delivery.timeout.ms should be equal to or larger than"):
        delivery_timeout_ms(config(delivery_timeout_ms=1000))
    assert delivery_timeout_ms(config(linger_ms=200_000)) == 230_000


def test_no_connection_is_made_by_putting_a_producer_together() -> None:
    parts = assemble(config(compression_type="zstd"), ManualClock())
    assert parts.accumulator.settings.compression is CompressionType.ZSTD
    assert parts.metadata.cluster.is_bootstrap
    parts.sender.client.close()


def test_java_interceptors_are_refused() -> None:
    values = config(interceptor_classes="com.example.A,com.example.B")
    with pytest.raises(
        ConfigError, match=r"interceptor\.classes=com\.example\.A, com\.example\.B: Java classes cannot"
    ):
        Producer(values)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="linger.mss"):
        config(linger_mss=1)


def test_the_compression_ratio_moves_down_slowly_and_up_fast() -> None:
    ratios = CompressionRatioEstimator()
    assert ratios.estimation("t", CompressionType.LZ4) == 1.0
    assert ratios.update("t", CompressionType.LZ4, 0.5) == pytest.approx(0.995)
    assert ratios.update("t", CompressionType.LZ4, 1.2) == pytest.approx(1.2)
    assert ratios.update("t", CompressionType.LZ4, 1.21) == pytest.approx(1.25)
    assert ratios.estimation("t", CompressionType.ZSTD) == 1.0
