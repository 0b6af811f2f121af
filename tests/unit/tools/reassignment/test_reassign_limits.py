"""A move begins when the brokers have applied its throttles."""

from __future__ import annotations

from typing import cast

import pytest

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, TOPIC, ConfigEntry, Resource, ResourceConfig
from kafkatools.core.admin.replication_throttles import LOG_DIR_RATE
from kafkatools.core.errors import UnknownTopicOrPartition
from kafkatools.tools.reassignment import limits
from kafkatools.tools.reassignment.journal import Setting

RATE = Setting(BROKER, "3", LOG_DIR_RATE, None, ("70", "50"))
LIST = Setting(TOPIC, "orders", "leader.replication.throttled.replicas", None, ("0:1",))


class Admin:
    """Two brokers; notes the pauses between questions."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.pauses = 0

    def brokers(self) -> dict[int, object]:
        return {1: None, 3: None}

    def deadline_ms(self, timeout_ms: int) -> int:
        return timeout_ms

    def wait_before_retry(self, attempts: int, deadline_ms: int) -> bool:
        assert attempts == self.pauses
        self.pauses += 1
        return self.pauses <= self.patience


@pytest.mark.parametrize(
    ("shown", "patience", "pauses"),
    [(["50"], 9, 0), ([None, "70", "50"], 9, 2), ([None] * 9, 3, 4)],
    ids=["at once", "later", "never"],
)
def test_each_broker_is_asked_until_it_shows_its_limit(
    monkeypatch: pytest.MonkeyPatch, shown: list[str | None], patience: int, pauses: int
) -> None:
    rest = iter(shown)
    asked = []

    def describe(
        _: object, resources: list[Resource], *, names: list[str], node: int
    ) -> dict[Resource, ResourceConfig]:
        asked.append((node, tuple(names)))
        return {(BROKER, "3"): ResourceConfig((ConfigEntry(LOG_DIR_RATE, next(rest), 1),))}

    monkeypatch.setattr(limits, "describe_configs", describe)
    admin = Admin(patience)
    limits.wait_until_limited(cast(AdminClient, admin), [RATE])
    assert admin.pauses == pauses
    assert asked == [(3, (LOG_DIR_RATE,))] * (min(pauses, patience) + 1), "broker 1 has no limit of its own"


def test_each_broker_has_to_know_the_limits_of_topics_and_a_deleted_topic_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def describe(
        _: object, resources: list[Resource], *, names: list[str], node: int
    ) -> dict[Resource, ResourceConfig]:
        asked.append(node)
        return {(TOPIC, "orders"): ResourceConfig((), UnknownTopicOrPartition("orders"))}

    monkeypatch.setattr(limits, "describe_configs", describe)
    limits.wait_until_limited(cast(AdminClient, Admin(0)), [LIST])
    assert asked == [1, 3]
