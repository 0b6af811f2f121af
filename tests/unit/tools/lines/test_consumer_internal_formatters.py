"""Records of internal topics print as Kafka's formatters print them."""

import base64
import json
import logging
import pathlib
from typing import Any

import pytest

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.lines.formatters import FORMATTERS, formatter_class, log_text, make_formatter
from kafkatools.tools.lines.internal_formatters import INTERNAL_FORMATTERS

_GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "consumer" / "formatters" / "records.jsonl"
_TOOLS = "org.apache.kafka.tools.consumer."


def _recorded(formatter: str) -> list[dict[str, Any]]:
    lines = _GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]
    return [record for record in map(json.loads, lines) if record["formatter"] == formatter]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _fetched(offset: int, *rows: tuple[bytes | None, bytes | None]) -> FetchedColumns:
    builder = BatchBuilder(1 << 16, base_offset=offset)
    for key, value in rows:
        builder.append(1_700_000_000_000, key, value)
    return FetchedColumns("topic", 0, RecordBatch(builder.close()).columns())


def _written(formatter: str, fetched: FetchedColumns) -> str:
    out, errors = bytearray(), []

    def on_error(error: KafkaError) -> bool:
        errors.append(f"error: {error}")
        return False

    make_formatter(formatter, {}).write(out, fetched, on_error)
    return "".join([out.decode(), *errors])


@pytest.mark.parametrize("formatter", sorted(INTERNAL_FORMATTERS))
def test_records_print_as_recorded(formatter: str) -> None:
    recorded = _recorded(formatter)
    assert any(record["text"].startswith("{") for record in recorded) or "ShareGroupMessage" in formatter
    for record in recorded:
        text = _written(formatter, _fetched(record["offset"], (_bytes(record["key"]), _bytes(record["value"]))))
        assert text.removesuffix("\n") == record["text"], record


def test_each_object_ends_its_line_and_records_not_shown_count() -> None:
    good = next(record for record in _recorded(_TOOLS + "OffsetsMessageFormatter") if record["text"].startswith("{"))
    key, value = _bytes(good["key"]), _bytes(good["value"])
    fetched = _fetched(0, (key, value), (None, b"x"), (b"\x00\x02", None), (key, value))
    out = bytearray()
    count = make_formatter("offsets", {}).write(out, fetched, lambda error: "\x00\x02" not in str(error))
    assert count == 4
    assert out.decode() == (good["text"] + "\n") * 2


def test_share_group_records_are_shown_by_their_own_formatter_only() -> None:
    from kafkatools.core.protocol.schemas import offsets

    key, value = offsets.encode_record(
        offsets.ShareGroupMetadataKey(group_id="s"), offsets.ShareGroupMetadataValue(epoch=3)
    )
    fetched = _fetched(0, (key, value))
    text = _written("share-group", fetched)
    assert json.loads(text)["key"] == {"type": 11, "data": {"groupId": "s"}}
    assert _written("offsets", fetched) == _written("group-metadata", fetched) == ""


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("OffsetsMessageFormatter", "OffsetsMessageFormatter"),
        ("transaction-log", "TransactionLogMessageFormatter"),
        ("ShareGroupStateMessageFormatter", "group.share.ShareGroupStateMessageFormatter"),
        ("share-group-state", "group.share.ShareGroupStateMessageFormatter"),
        (_TOOLS + "GroupMetadataMessageFormatter", "GroupMetadataMessageFormatter"),
        ("default", "DefaultMessageFormatter"),
        ("no-op", "NoOpMessageFormatter"),
    ],
)
def test_formatters_go_by_class_by_simple_name_and_in_short(name: str, class_name: str) -> None:
    assert formatter_class(name) == _TOOLS + class_name
    assert _TOOLS + class_name in FORMATTERS


def test_properties_mean_nothing_to_internal_formatters() -> None:
    with pytest.raises(ConfigError, match=r"OffsetsMessageFormatter takes no formatter properties: print\.key"):
        make_formatter("offsets", {"print.key": "true"})


def test_logging_formatter_logs_each_record_and_prints_as_the_default(caplog: pytest.LogCaptureFixture) -> None:
    fetched = _fetched(0, (b"k", b"v"), (None, None))
    with caplog.at_level(logging.INFO, logger="kafkatools"):
        assert _written("logging", fetched) == "v\nnull\n"
    # LoggingMessageFormatter's own words: no comma after a key that is missing
    wanted = ["CreateTime:1700000000000, key:k, value:v", "CreateTime:1700000000000, key:nullvalue:null"]
    assert [record.getMessage() for record in caplog.records] == wanted
    assert log_text(fetched.columns, 0) == wanted[0]
