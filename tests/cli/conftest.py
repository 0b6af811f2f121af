"""Embedded brokers for the tests of the commands: of a test's own, or one for all tests of a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from support.denied_users import GuardedBroker, guarded_broker
from support.embedded import embedded_broker
from support.kt_process import BrokerThread
from support.live_groups import GroupClient

StartBroker = Callable[..., str]


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """start_broker(settings={...}) -> "127.0.0.1:PORT" of a fresh embedded broker; stopped at the end of the test.

    With KT_TEST_BOOTSTRAP=host:port that broker is used instead, to compare with another implementation.
    """
    brokers: list[BrokerThread] = []

    def start(settings: dict[str, str] | None = None) -> str:
        given = os.environ.get("KT_TEST_BOOTSTRAP")
        if given:
            return given
        brokers.append(BrokerThread(tmp_path_factory.mktemp("broker"), settings))
        brokers[-1].start()
        return brokers[-1].bootstrap

    yield start
    for broker in brokers:
        broker.stop()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for the tests of a file."""
    with embedded_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def client(bootstrap: str) -> Iterator[GroupClient]:
    """A client of that broker."""
    with GroupClient(bootstrap) as connected:
        yield connected


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    """A broker with an authorizer for the tests of a file, and users that lack rights."""
    with guarded_broker() as broker:
        yield broker
