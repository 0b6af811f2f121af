"""Sensors: windows, expiry and rates as in Kafka's SampledStat and Rate."""

from __future__ import annotations

import math
import sys
import threading
from types import FrameType

from support.manual_clock import ManualClock

from kafkatools.core.metrics.producer import ProducerMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, Window

WINDOW = Window(2, 1000)


def test_a_sensor_without_values_has_no_average() -> None:
    sensor = Sensor(WINDOW)
    assert math.isnan(sensor.average(0))
    assert math.isnan(sensor.maximum(0))
    assert math.isnan(sensor.minimum(0))
    assert sensor.rate(0) == 0


def test_first_values_are_divided_by_a_full_sample() -> None:
    sensor = Sensor(WINDOW)
    sensor.record(10, 5000)
    assert sensor.rate(5000) == 10  # Rate.windowSize: one full sample is missing
    assert sensor.rate(5500) == 10 / 1.5
    assert sensor.rate(6500) == 10 / 1.5  # a whole sample has passed: none is added


def test_old_samples_expire() -> None:
    sensor = Sensor(WINDOW)
    sensor.record(10, 0)
    sensor.record(4, 1000)
    assert (sensor.average(1500), sensor.maximum(1500), sensor.minimum(1500)) == (7, 10, 4)
    assert (sensor.average(2000), sensor.maximum(2999)) == (4, 4)
    assert math.isnan(sensor.average(3000))
    sensor.record(6, 9000)
    assert sensor.maximum(9000) == 6
    assert (sensor.total, sensor.count, sensor.last) == (20, 3, 6)


def test_one_sample_keeps_no_earlier_one() -> None:
    sensor = Sensor(Window(1, 1000))
    sensor.record(10, 0)
    sensor.record(2, 1000)
    assert sensor.maximum(1000) == 2
    assert sensor.count_rate(1500) == 2


def test_reading_changes_nothing() -> None:
    sensor = Sensor(WINDOW)
    sensor.record(10, 0)
    assert math.isnan(sensor.average(60_000))
    assert sensor.average(500) == 10


def test_a_reader_between_any_two_statements_of_a_record_sees_recorded_values() -> None:
    """Another thread may read at each line of `record`; here the tracer does."""
    sensor, seen = Sensor(WINDOW), set()

    def read(frame: FrameType, event: str, argument: object) -> object:
        if frame.f_code is Sensor.record.__code__:
            now_ms = frame.f_locals["now_ms"]
            seen.update((sensor.minimum(now_ms), sensor.maximum(now_ms), sensor.average(now_ms)))
        return read

    before = sys.gettrace()
    sys.settrace(read)
    try:
        for now_ms in (0, 1000, 5000):  # each begins a sample, the last one when the others have expired
            sensor.record(7, now_ms)
    finally:
        sys.settrace(before)
    assert {value for value in seen if not math.isnan(value)} == {7}


def test_rates_per_hour_have_samples_of_an_hour() -> None:
    clock = ManualClock()
    registry = MetricsRegistry("app", WINDOW, clock)
    registry.hourly_sensor("g", "rebalance").record(1, clock.now_ms())
    assert registry.values()["rebalance-rate-per-hour"] == 1  # as Apache Kafka 4.3.1 after a first rebalance
    clock.advance_ms(3_600_000)
    assert registry.values()["rebalance-rate-per-hour"] == 1
    clock.advance_ms(3_600_000)
    assert registry.values()["rebalance-rate-per-hour"] == 0
    assert registry.values()["rebalance-total"] == 1


def test_removed_metrics_are_those_of_the_tags() -> None:
    registry = MetricsRegistry("app", WINDOW, ManualClock())
    for topic in ("a", "b", "c"):
        registry.sensor("g", {"x-avg": Sensor.average}, {"topic": topic})
        registry.gauge("g", "y", float, {"topic": topic})
    registry.remove("g", [{"topic": "a"}, {"topic": "c"}, {"topic": "other"}])
    assert [(name.name, name.tag("topic")) for name in registry.values() if name.group == "g"] == [
        ("y", "b"),
        ("x-avg", "b"),
    ]
    assert registry.values()["count"] == 3


def test_threads_count_every_failed_record() -> None:
    metrics = ProducerMetrics(MetricsRegistry("app", WINDOW, ManualClock()))

    def fail() -> None:
        for number in range(500):
            metrics.failed(f"t{number % 50}", 1, 0)

    threads = [threading.Thread(target=fail) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    values = metrics.registry.values()
    assert values["record-error-total"] == 2000
    assert values["count"] == len(values)  # no topic was added twice
