"""kt reassign-partitions against three embedded nodes: every recording replayed, and moves under load. The tests are
those that run on Apache Kafka's nodes."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest
from support.embedded_three_nodes import EmbeddedNodes
from support.waiting import eventually

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "real_kafka"))

import test_real_reassign as real  # noqa: E402
from test_real_reassign import (  # noqa: E402, F401
    admin,
    mover,
    test_all_recordings_are_repeated,
    test_cancelled_moves_leave_replicas_and_no_throttles,
    test_moves_under_load_lose_nothing,
    test_refused_moves_leave_no_throttles,
    views,
)

from kafkatools.core.admin.client import AdminClient  # noqa: E402
from kafkatools.core.clock import SystemClock  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNodes]:
    """Three embedded nodes in the place of Apache Kafka's."""
    made = EmbeddedNodes(tmp_path_factory.mktemp("embedded-reassign"), 3, real._SETTINGS)
    try:
        made.start()
        with AdminClient(made.bootstrap, {}, SystemClock()) as client:
            eventually(lambda: real._knows_all(client))
        yield made
    finally:
        made.kill_all()
