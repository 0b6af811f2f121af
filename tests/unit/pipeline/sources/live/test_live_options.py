"""Options of `kt` as a source: what is taken, and what else is refused, in one line with the option's name."""

from __future__ import annotations

import logging
import pickle

import pytest

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import EARLIEST, LATEST, is_set, read_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_names_and_words_are_matched_whatever_their_case() -> None:
    options = read_options(
        {
            "KAFKA.bootstrap.servers": "localhost:9092",
            "SUBSCRIBE": " a , b,a ",
            "startingoffsets": "Earliest",
            "FAILonDATAloss": "FALSE",
            "includeHeaders": "True",
            "kafka.isolation.level": "read_committed",
            "maxTriggerDelay": "2m",
        },
        is_streaming=True,
    )
    assert options.subscription.topics == ("a", "b")
    assert options.starting.everywhere == EARLIEST
    assert (options.fail_on_data_loss, options.include_headers, options.is_committed_only) == (False, True, True)
    assert options.max_trigger_delay_ms == 120_000
    assert is_set({"INCLUDEHEADERS": "true"}, "includeHeaders")
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_batch_reads_everything_and_a_stream_what_is_new_unless_told() -> None:
    batch = read_options({**SERVERS, "subscribe": "t"}, is_streaming=False)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert read_options({**SERVERS, "subscribe": "t"}, is_streaming=True).starting.everywhere == LATEST


def test_a_timestamp_goes_before_timestamps_by_partition_and_these_before_offsets() -> None:
    given = {**SERVERS, "subscribe": "t", "startingOffsets": '{"t":{"0":5}}'}
    assert read_options(given, is_streaming=False).starting.offsets == {T0: 5}
    given["startingOffsetsByTimestamp"] = '{"t":{"0":1700000000000,"1":0}}'
    assert read_options(given, is_streaming=False).starting.timestamps_ms == {T0: 1700000000000, T1: 0}
    given["startingTimestamp"] = " 17 "
    assert read_options(given, is_streaming=False).starting.timestamp_ms == 17


def test_settings_of_the_client_are_checked_and_fetches_are_large_unless_told() -> None:
    options = read_options(
        {**SERVERS, "subscribe": "t", "kafka.client.id": "x", "kafka.group.id": "g"}, is_streaming=False
    )
    assert options.settings["client.id"] == "x"
    assert "group.id" not in options.settings
    assert int(options.settings["max.partition.fetch.bytes"]) > 1 << 20
    given = {**SERVERS, "subscribe": "t", "kafka.max.partition.fetch.bytes": "77"}
    assert read_options(given, is_streaming=False).settings["max.partition.fetch.bytes"] == "77"


def test_a_setting_that_nobody_knows_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        options = read_options({**SERVERS, "subscribe": "t", "kafka.bootstrap.colour": "red"}, is_streaming=False)
    assert "kafka.bootstrap.colour" in caplog.text
    assert "bootstrap.colour" not in options.settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "One of the options subscribe, subscribePattern and assign is required"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "The options assign and subscribe cannot be used together"),
        ({"subscribe": " ,"}, "subscribe names no topic"),
        ({"subscribePattern": ""}, "subscribePattern is empty"),
        ({"subscribePattern": "a("}, "subscribePattern 'a(' is not a valid regular expression"),
        ({"assign": "t"}, 'assign must be like {"topicA":[0,1],"topicB":[2,4]}, not \'t\''),
        ({"assign": '{"t":["x"]}'}, "assign must be like"),
        ({"assign": '{"t":[-1]}'}, "assign must be like"),
        ({"subscribe": "t", "startingOffsets": "newest"}, "startingOffsets must be like earliest, latest or {"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets must be like earliest, latest or {"),
        ({"subscribe": "t", "startingOffsets": '{"t":[0]}'}, "startingOffsets must be like earliest, latest or {"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":"5"}}'},
            "startingOffsets must be like earliest, latest or {",
        ),
        ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch query"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 cannot be latest"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, "endingOffsets cannot be earliest in a batch query"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"1":-2}}'}, "endingOffsets for t-1 cannot be earliest"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":5}}'},
            "startingOffsets for t-0 (9) is after endingOffsets (5)",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"1":5}}'},
            "startingOffsets and endingOffsets name different partitions: t-0 is not in endingOffsets",
        ),
        ({"subscribe": "t", "startingTimestamp": "today"}, "startingTimestamp must be an integer"),
        ({"subscribe": "t", "endingOffsetsByTimestamp": "[]"}, "endingOffsetsByTimestamp must be like {"),
        (
            {"subscribe": "t", "startingOffsetsByTimestampStrategy": "skip"},
            "startingOffsetsByTimestampStrategy must be one",
        ),
        ({"subscribe": "t", "failOnDataLoss": "no"}, "failOnDataLoss must be true or false, not 'no'"),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions must be an integer from 1 to 2147483647, not '0'"),
        ({"subscribe": "t", "maxRecordsPerPartition": "1e6"}, "maxRecordsPerPartition must be an integer"),
        ({"subscribe": "t", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger (5) is"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration such as"),
        ({"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs must be at least 1 ms"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset cannot be set"),
        ({"subscribe": "t", "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be set"),
        ({"subscribe": "t", "kafka.key.deserializer": "x"}, "kafka.key.deserializer cannot be set"),
        ({"subscribe": "t", "kafka.isolation.level": "some"}, "kafka.*: Invalid value some for"),
        ({"subscribe": "t", "startingOffset": "earliest"}, "reading; did you mean startingOffsets?"),
        ({"subscribe": "t", "colour": "red"}, "kt has no option colour for reading"),
        ({"subscribe": "t", "kafka.colour": "red"}, "kafka.colour is not a setting of this client"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_that_names_the_option(given: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError) as refused:
        read_options({**SERVERS, "strictOptions": "true", **given}, is_streaming=False)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_durations_have_units_or_are_milliseconds() -> None:
    names = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.retryIntervalMs", "maxTriggerDelay")
    texts = dict(zip(names, ("90s", "250", "2m"), strict=True))
    options = read_options({**SERVERS, "subscribe": "t", **texts}, is_streaming=True)
    assert options.poll_timeout_ms == 90_000
    assert (options.retry_interval_ms, options.max_trigger_delay_ms) == (250, 120_000)


def test_brokers_are_needed() -> None:
    with pytest.raises(PipelineError, match="kafka.bootstrap.servers is required"):
        read_options({"subscribe": "t"}, is_streaming=True)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(PipelineError, match=f"{name} is for batch queries"):
        read_options({**SERVERS, "subscribe": "t", name: "latest"}, is_streaming=True)


@pytest.mark.parametrize(
    ("name", "value", "is_streaming", "reason"),
    [
        ("groupIdPrefix", "x", False, "the source reads without a consumer group"),
        ("kafka.group.id", "x", True, "the source reads without a consumer group"),
        ("maxOffsetsPerTrigger", "7", False, "a batch query has no triggers"),
        ("minOffsetsPerTrigger", "7", False, "a batch query has no triggers"),
        ("maxTriggerDelay", "7s", False, "a batch query has no triggers"),
        ("endingTimestamp", "7", True, "a stream has no end"),
    ],
)
def test_options_without_effect_are_a_warning_with_the_reason(
    name: str, value: str, is_streaming: bool, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    read_options({**SERVERS, "subscribe": "t", name: value, "strictOptions": "true"}, is_streaming=is_streaming)
    assert caplog.messages == [f"kt: the option {name} has no effect: {reason}"]
    caplog.clear()
    read_options({**SERVERS, "subscribe": "t"}, is_streaming=is_streaming)
    assert caplog.messages == []


def test_unknown_options_are_a_warning_unless_strict(caplog: pytest.LogCaptureFixture) -> None:
    read_options({**SERVERS, "subscribe": "t", "startingOffset": "latest", "kafka.acks": "all"}, is_streaming=False)
    assert caplog.messages == [
        "kt has no option startingoffset for reading; it has no effect; did you mean startingOffsets? "
        "(strictOptions=true refuses it)"
    ]


def test_times_below_zero_are_offsets_as_for_brokers() -> None:
    given = {**SERVERS, "subscribe": "t", "startingTimestamp": "-2", "endingTimestamp": "-1"}
    options = read_options(given, is_streaming=False)
    assert (options.starting.timestamp_ms, options.ending.timestamp_ms) == (EARLIEST, LATEST)
    with pytest.raises(PipelineError, match="startingTimestamp must be an integer of at least -2"):
        read_options({**given, "startingTimestamp": "-3"}, is_streaming=False)


def test_no_retries_are_one_attempt() -> None:
    given = {**SERVERS, "subscribe": "t", "fetchOffset.numRetries": "0"}
    assert read_options(given, is_streaming=False).fetch_retries == 1
