"""The quota controller_mutation_rate (KIP-599) on the embedded broker and on Apache Kafka."""

import pathlib

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.mutation_story import tell

pytestmark = pytest.mark.real_kafka


def test_both_brokers_refuse_and_throttle_the_same_changes(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        ours = tell(bootstrap, "mutations-")
    theirs = tell(real_kafka.bootstrap, "mutations-")
    assert [step.errors for step in ours[:2]] == [step.errors for step in theirs[:2]]
    assert ours[1].is_throttled
    assert theirs[1].is_throttled
    assert ours[-1] == theirs[-1]
