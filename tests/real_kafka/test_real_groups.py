"""Our consumer in groups of Apache Kafka: alone, with Java members, with librdkafka members, in both protocols."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.group_members import (
    CLIENTS_PYTHON,
    COOPERATIVE,
    RANGE,
    java_member,
    librdkafka_member,
    share_with,
)
from support.requirements import require

pytestmark = pytest.mark.real_kafka


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (("--group-protocol", "classic", "--assignment-strategy", RANGE), {}),
        (
            ("--group-protocol", "classic", "--assignment-strategy", COOPERATIVE),
            {"partition_assignment_strategy": COOPERATIVE},
        ),
        (("--group-protocol", "consumer"), {"group_protocol": "consumer"}),
    ],
    ids=["eager", "cooperative", "consumer"],
)
def test_a_java_member_and_ours_share_a_topic(
    real_kafka: ApacheKafka, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    share_with(real_kafka.bootstrap, java_member, *args, **settings)


@pytest.mark.clients
@pytest.mark.parametrize(
    ("args", "settings"),
    [
        (("partition.assignment.strategy=cooperative-sticky",), {"partition_assignment_strategy": COOPERATIVE}),
        (("group.protocol=consumer",), {"group_protocol": "consumer"}),
    ],
    ids=["cooperative", "consumer"],
)
def test_a_librdkafka_member_and_ours_share_a_topic(
    real_kafka: ApacheKafka, args: tuple[str, ...], settings: dict[str, Any]
) -> None:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    share_with(real_kafka.bootstrap, librdkafka_member, *args, **settings)
