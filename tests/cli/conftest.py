"""An embedded broker for the tests of the commands, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from support.kt_process import BrokerProcess

StartBroker = Callable[..., str]


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """start_broker(settings={...}) -> "127.0.0.1:PORT" of a fresh embedded broker; stopped at the end of the test.

    With KT_TEST_BOOTSTRAP=host:port that broker is used instead, to compare with another implementation.
    """
    brokers: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None) -> str:
        given = os.environ.get("KT_TEST_BOOTSTRAP")
        if given:
            return given
        brokers.append(BrokerProcess(tmp_path_factory.mktemp("broker"), settings))
        brokers[-1].start()
        return brokers[-1].bootstrap

    yield start
    for broker in brokers:
        broker.stop()
