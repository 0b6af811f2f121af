"""Partitions in texts and in responses."""

from __future__ import annotations

import pytest

from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import result_of
from kafkatools.core.topic_partition import partitions_text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "it has no partitions"),
        ([0], "its only partition is 0"),
        ([2, 0, 1], "its partitions are 0 to 2"),
        ([0, 2, 5], "its partitions are 0, 2, 5"),
    ],
)
def test_text_names_the_partitions(numbers: list[int], text: str) -> None:
    assert partitions_text(numbers) == text


def test_a_response_without_the_partition_has_no_result() -> None:
    response_type = messages.response_type(ApiKey.LIST_OFFSETS, 6)
    found = {"name": "t", "partitions": [{"partition_index": 1, "offset": 7}]}
    for topics in ([], [{"name": "t", "partitions": []}], [{"name": "u", "partitions": [{"partition_index": 1}]}]):
        assert result_of(messages.build(response_type, {"topics": topics}).topics, ("t", 1)) is None
        result = result_of(messages.build(response_type, {"topics": [*topics, found]}).topics, ("t", 1))
        assert result is not None and result.offset == 7
