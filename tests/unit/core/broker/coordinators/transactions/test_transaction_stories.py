"""The embedded broker answers courses of transactions as Apache Kafka 4.3.1 did (recorded in
tests/golden/broker/transaction-stories.json by the test of the same stories in tests/real_kafka)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.transaction_stories import STORIES, golden, tell

SETTINGS = {"transaction_state_log_num_partitions": "4", "offsets_topic_num_partitions": "4"}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("stories"), **SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def durable_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: pathlib.Path = tmp_path_factory.mktemp("durable")
    with embedded_broker(directory, log_durability="fsync", **SETTINGS) as address:
        yield address


@pytest.mark.parametrize("name", STORIES)
def test_answers_are_apache_kafkas(bootstrap: str, name: str) -> None:
    assert tell(bootstrap, name) == golden()[name]


@pytest.mark.parametrize("name", ["old_client", "new_client", "fencing", "offsets"])
def test_answers_are_the_same_when_they_wait_for_the_disk(durable_bootstrap: str, name: str) -> None:
    assert tell(durable_bootstrap, name) == golden()[name]
