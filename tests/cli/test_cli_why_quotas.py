"""kt why: client quotas that limit producers and groups, on a broker that measures rates over three seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.live_groups import ClassicMember
from support.why import Between, LimitedWriter, healthy, make_topic, only_cause

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quotas import Entity, alter_client_quotas
from kafkatools.core.clock import SystemClock

RATE = 100_000.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker"), quota_window_num="3") as address:
        yield address


@contextlib.contextmanager
def quota(bootstrap: str, entity: Entity, name: str, value: float) -> Iterator[None]:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        alter_client_quotas(admin, entity, {name: value})
        try:
            yield
        finally:
            alter_client_quotas(admin, entity, {name: None})


@pytest.mark.slow
def test_a_quota_of_producers(bootstrap: str) -> None:
    make_topic(bootstrap, "limited")
    entity = (("client-id", "writer"),)
    with (
        quota(bootstrap, entity, "producer_byte_rate", RATE),
        LimitedWriter(bootstrap, "limited", "writer", RATE) as writer,
    ):
        verdict = only_cause(bootstrap, "partition", "limited-0", clock=Between(lambda: writer.write_for(6)))
    assert verdict["cause"] == "producer-quota" and "client-id writer" in verdict["sentence"]
    assert verdict["evidence"][0].startswith("producer_byte_rate=100000 of client-id writer, measured for ")
    assert verdict["command"].endswith("--describe --entity-type clients --entity-name writer")


def test_a_topic_that_does_not_grow_is_healthy_in_spite_of_a_quota(bootstrap: str) -> None:
    make_topic(bootstrap, "calm")
    with quota(bootstrap, (("client-id", None),), "producer_byte_rate", RATE):
        healthy(bootstrap, "topic", "calm")


@pytest.mark.slow
def test_a_request_quota_of_a_group(bootstrap: str) -> None:
    make_topic(bootstrap, "asked")
    with ClassicMember(bootstrap, "asker", "asked", {"asked": (0,)}) as member:
        member.commit_own({("asked", 0): 1})
        with quota(bootstrap, (("client-id", "asker"),), "request_percentage", 0.01):
            verdict = only_cause(bootstrap, "group", "asked")
        with quota(bootstrap, (("client-id", "asker"),), "request_percentage", 50.0):
            assert only_cause(bootstrap, "group", "asked")["cause"] == "consumer-stalled"
    assert verdict["cause"] == "consumer-quota"
    assert "to 0.01 % of a thread of the broker, 0.1 ms in each second" in verdict["sentence"]


@pytest.mark.slow
def test_the_quota_of_the_default_user_decides_before_that_of_a_client_id(bootstrap: str) -> None:
    make_topic(bootstrap, "default")
    with ClassicMember(bootstrap, "anyone", "default", {"default": (0,)}) as member:
        member.commit_own({("default", 0): 1})
        with (
            quota(bootstrap, (("client-id", "anyone"),), "request_percentage", 0.01),
            quota(bootstrap, (("user", None),), "request_percentage", 90.0),
        ):
            assert only_cause(bootstrap, "group", "default")["cause"] == "consumer-stalled"
