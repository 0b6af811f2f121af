"""Transactions between this broker and Apache Kafka: the same stories, and each other's `__transaction_state`."""

from __future__ import annotations

import pytest
from support.apache_kafka import ApacheKafka
from support.transaction_stories import STORIES, golden, tell

pytestmark = pytest.mark.real_kafka


@pytest.mark.parametrize("name", STORIES)
def test_the_recorded_stories_are_what_apache_kafka_answers(real_kafka: ApacheKafka, name: str) -> None:
    """Where tests/golden/broker/transaction-stories.json comes from."""
    assert tell(real_kafka.bootstrap, name) == golden()[name]
