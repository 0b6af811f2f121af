"""The real Apache Kafka of the suite works: the other tests of this folder stand on it."""

import pytest
from support.apache_kafka import ApacheKafka


@pytest.mark.real_kafka
def test_topic_made_with_the_real_tool_is_listed(real_kafka: ApacheKafka) -> None:
    real_kafka.tool("topics", "--create", "--topic", "fixture-check", "--partitions", "2")
    assert "fixture-check" in real_kafka.tool("topics", "--list").splitlines()
