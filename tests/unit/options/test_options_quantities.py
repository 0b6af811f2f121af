"""Numbers with units: durations, sizes, and the settings that take them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkatools.commands.reassign_partitions import byte_rate
from kafkatools.exit_status import CommandError
from kafkatools.options import with_plain_numbers
from kafkatools.options.quantities import (
    byte_count,
    duration_ms,
    milliseconds,
    plain_settings,
    positive_seconds,
    size_bytes,
)

DURATIONS = {"ms": 1, "s": 1000, "m": 60 * 1000, "h": 3600 * 1000, "d": 24 * 3600 * 1000, "w": 7 * 24 * 3600 * 1000}
SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


NUMBERS = (0, 1, 7, 60, 999, 1024, 10**6, 10**12)


@pytest.mark.parametrize("unit", DURATIONS)
def test_a_duration_is_its_number_times_its_unit(unit: str) -> None:
    for number in NUMBERS:
        assert duration_ms(f"{number}{unit}") == duration_ms(f" {number} {unit} ") == number * DURATIONS[unit]


@pytest.mark.parametrize("unit", SIZES)
def test_a_size_is_its_number_times_its_unit(unit: str) -> None:
    for number in NUMBERS:
        assert size_bytes(f"{number}{unit}") == size_bytes(f" {number} {unit} ") == number * SIZES[unit]


def test_parts_add_up_and_fractions_are_exact() -> None:
    assert duration_ms("1d12h") == duration_ms("36h") == duration_ms("1.5d")
    assert duration_ms("1h 30m") == duration_ms("90m")
    assert size_bytes("1.5KiB") == 3 * size_bytes("512B")  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "-2h", "2h-", "1h3", "0.5ms", "1e3s", "2H", "PT2H", "٣h", "1MiB"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert duration_ms(text) is None


@pytest.mark.parametrize("text", ["", "2", "MiB", "2mib", "-2MiB", "1KB", "1K", "0.3B", "1MiB2", "1h"])
def test_other_texts_are_no_sizes(text: str) -> None:
    assert size_bytes(text) is None


def test_settings_are_converted_by_their_names_and_each_is_told() -> None:
    told: list[str] = []
    settings = {
        "retention.ms": "1h", "segment.bytes": "1MiB", "producer_byte_rate": "2KiB", "flush.ms": "9",
        "cleanup.policy": "compact", "compression.type": "1h",
    }  # fmt: skip
    plain = plain_settings(settings, told.append)
    changed = {name: value for name, value in plain.items() if value != settings[name]}
    assert changed == {"retention.ms": "3600000", "segment.bytes": "1048576", "producer_byte_rate": "2048"}
    assert [line.split("=")[0] for line in told] == list(changed)
    assert list(plain) == list(settings)


@pytest.mark.parametrize(("name", "text"), [("retention.ms", "2y"), ("segment.bytes", "1MB"), ("retention.ms", "1MiB")])
def test_an_unknown_unit_is_an_error_with_the_units_that_there_are(name: str, text: str) -> None:
    with pytest.raises(CommandError, match=f"Invalid value {text} for configuration {name}") as refused:
        plain_settings({name: text}, print)
    assert ("MiB" if name == "segment.bytes" else "ms, s, m, h, d or w") in refused.value.hint


@pytest.mark.parametrize("text", ["9e9", "1.5E3", "1e+6", "1e-3", "1048576", "0.5"])
def test_an_exponent_is_no_unit(text: str) -> None:
    """Quotas are Doubles."""
    told: list[str] = []
    assert plain_settings({"producer_byte_rate": text}, told.append) == {"producer_byte_rate": text}
    assert told == []


def test_an_option_takes_a_unit_or_kafkas_number() -> None:
    assert (milliseconds("7d"), milliseconds("604800000"), milliseconds("-1")) == (604_800_000, 604_800_000, -1)
    assert (byte_count("1MiB"), byte_count("1048576"), byte_count("-1")) == (1 << 20, 1 << 20, -1)
    assert (positive_seconds("500ms"), positive_seconds("1.5"), positive_seconds("2m")) == (0.5, 1.5, 120)
    assert (byte_rate("50M"), byte_rate("1MiB"), byte_rate("1000")) == (50_000_000, 1 << 20, 1000)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(milliseconds, "7y"), (byte_count, "1MB"), (positive_seconds, "0s"), (positive_seconds, "5x"), (byte_rate, "1GB")],
)
def test_an_option_refuses_other_units(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_settings_of_clients_take_units_and_keep_numbers_and_words() -> None:
    plain = with_plain_numbers({"linger.ms": "5s", "batch.size": "1MiB", "acks": "all", "retries": "3"})
    assert plain == {"linger.ms": "5000", "batch.size": "1048576", "acks": "all", "retries": "3"}
    with pytest.raises(CommandError, match="Invalid value 1MB for configuration buffer.memory: unknown unit"):
        with_plain_numbers({"buffer.memory": "1MB"})
