"""Looks for topics that were deleted, at a broker that answers from a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.scripted_broker import CLOSE, ScriptedBroker
from support.skipping_clock import SkippingClock

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import Clock
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import RequestHeader
from kafkatools.tools.backup import deleted_topics
from kafkatools.tools.backup.deleted_topics import DeletedTopics

ERRORS = {"gone": 3, "hidden": 29, "there": 0}  # UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED


class Broker(ScriptedBroker):
    """Reports on the requested topics only."""

    def say_cluster(self, header: RequestHeader, request: Any) -> Any:
        names = [item.name for item in request.topics or ()]
        self.topics = [{"name": name, "error_code": ERRORS[name], "partitions": []} for name in names]
        return super().say_cluster(header, request)


@contextmanager
def looking(broker: Broker, clock: Clock) -> Iterator[DeletedTopics]:
    with broker.in_background(), AdminClient(broker.bootstrap, {"retry.backoff.ms": "10"}, clock) as admin:
        admin.brokers()
        yield DeletedTopics(admin)


def asked(broker: Broker) -> list[list[str]]:
    """The topics that each request for some named, as the broker got them."""
    requests = [request for header, request in broker.requests if header.api_key == ApiKey.METADATA and request.topics]
    return [[item.name for item in request.topics] for request in requests]


def test_only_topics_that_a_broker_does_not_know_are_deleted() -> None:
    with looking(Broker(), SkippingClock()) as deleted:
        deleted.check({"gone", "hidden", "there"})
        assert deleted.names == {"gone"}


def test_a_broker_is_asked_at_most_every_few_seconds() -> None:
    broker, clock = Broker(), SkippingClock()
    with looking(broker, clock) as deleted:
        for _ in range(20):  # ten seconds of empty polls
            deleted.check({"hidden"})
            deleted.check(())
            clock.skip_ms(500)
        assert 3 <= len(asked(broker)) <= 4
        assert deleted.names == set()
        clock.skip_ms(5000)
        deleted.check({"gone", "hidden"})
        assert asked(broker)[-1] == ["gone", "hidden"]
        assert deleted.names == {"gone"}


def test_a_request_that_fails_is_repeated_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_topics, "_TIMEOUT_MS", 200)
    broker, clock = Broker(), SkippingClock()
    with looking(broker, clock) as deleted:
        broker.answers[ApiKey.METADATA] = lambda header, request: CLOSE
        deleted.check({"gone"})
        assert deleted.names == set()
        broker.answers[ApiKey.METADATA] = broker.say_cluster
        deleted.check({"gone"})
        assert deleted.names == set()
        clock.skip_ms(5000)
        deleted.check({"gone"})
        assert deleted.names == {"gone"}
