"""Events of the verifiable tools, written as Jackson writes them."""

from __future__ import annotations

import json

import pytest

from kafkatools.core.errors import Timeout, UnknownTopicOrPartition
from kafkatools.tools.verifiable.events import event, java_exception


def test_an_event_begins_with_its_time_and_name() -> None:
    assert event("startup_complete", 17) == '{"timestamp":17,"name":"startup_complete"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [("\x1f", '"\\u001F"'), ("\\u00ff", '"\\\\u00ff"'), ("\\\x1e", '"\\\\\\u001E"'), ("é\n", '"é\\n"')],
)
def test_control_characters_have_capital_digits(text: str, expected: str) -> None:
    line = event("record_data", 1, value=text)
    assert line == f'{{"timestamp":1,"name":"record_data","value":{expected}}}'
    assert json.loads(line)["value"] == text


def test_errors_have_the_names_of_javas_classes() -> None:
    assert java_exception(Timeout("x")) == "class org.apache.kafka.common.errors.TimeoutException"
    unknown = "class org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    assert java_exception(UnknownTopicOrPartition("x")) == unknown
