"""Which of several errors of a feature update is named, beside Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from kafkatools.core.broker.metadata.controller.features import FeatureUpdate, update_records
from kafkatools.core.errors import InvalidUpdateVersion

ALL = (
    "transaction.version", "group.version", "share.version", "streams.version", "eligible.leader.replicas.version",
    "metadata.version", "kraft.version", "no.such", "other", "a", "b",
)  # fmt: skip


@pytest.mark.parametrize(
    ("names", "named"),
    [  # each asked for level 99, as recorded from Apache Kafka
        (ALL, "group.version"),
        (ALL[::-1], "group.version"),
        (ALL[:3], "group.version"),
        (ALL[3:6], "metadata.version"),
        (("a", "b"), "a"),
        (("b", "a"), "a"),
        (("kraft.version", "no.such"), "no.such"),
        (("share.version", "a", "group.version"), "group.version"),
        (("no.such", "transaction.version"), "no.such"),
    ],
)
def test_apache_kafkas_first_error_is_named(names: tuple[str, ...], named: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=f"Invalid update version 99 for feature {named}[.] "):
        update_records({}, 1, [FeatureUpdate(name, 99) for name in names])
