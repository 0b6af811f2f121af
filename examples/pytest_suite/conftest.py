"""The broker of these tests has the settings of production that matter to the program."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, object]:
    """Topics are created on purpose only, and records may have 64 KiB. Groups start at once, unlike in production."""
    return {
        "auto.create.topics.enable": False,
        "message.max.bytes": 65536,
        "group.initial.rebalance.delay.ms": 0,
    }
