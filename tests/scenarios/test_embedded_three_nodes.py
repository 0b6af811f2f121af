"""The recordings that need three brokers, replayed on three embedded ones, the first of them the controller: topics,
elections, log directories, ACLs, the quorum, the cluster; and the monitor. The tests are those that run on Apache
Kafka's brokers."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

import pytest
from support.embedded_three_nodes import EmbeddedThreeNodes

_TESTS = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(_TESTS / "real_kafka"), str(_TESTS / "cli")]

import test_cli_cluster as cluster  # noqa: E402
import test_cli_metadata_quorum as metadata_quorum  # noqa: E402
import test_real_three_nodes as real  # noqa: E402
from test_real_monitor import test_a_broker_that_stops_is_seen_within_two_looks  # noqa: E402, F401
from test_real_three_nodes import (  # noqa: E402, F401
    recorded_topics,
    test_acls_are_changed_and_listed_as_recorded,
    test_leaders_are_elected_as_recorded,
    test_log_directories_are_described_as_recorded,
    test_topics_behave_as_recorded,
    test_what_only_a_stopped_broker_knows_is_said_to_be_missing,
)

pytestmark = pytest.mark.slow

_VOTERS_CHANGE = ("015",)
"""Adding and removing voters: the embedded quorum is a static one, and says so in other words."""


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedThreeNodes]:
    """Three embedded brokers in the place of Apache Kafka's."""
    made = EmbeddedThreeNodes(tmp_path_factory.mktemp("embedded-three-nodes"))
    try:
        made.start()
        made.wait_until_complete()
        yield made
    finally:
        made.kill_all()


@pytest.fixture
def empty_three_nodes(three_nodes: EmbeddedThreeNodes) -> EmbeddedThreeNodes:
    """The three of them without a topic."""
    three_nodes.empty()
    return three_nodes


def _without_directories(text: str) -> str:
    """Observers of a static quorum of ours do not tell the ids of their directories."""
    return re.sub(r"(?<=\t)(ID|A{22})(?=\t)", "ID", real._quorum(text).replace(', "directoryId": ID', ""))


def test_the_cluster_and_its_quorum_are_described_as_recorded(
    recorded_topics: EmbeddedThreeNodes,  # noqa: F811
    tmp_path: pathlib.Path,
) -> None:
    nodes = recorded_topics
    endpoints = real.Replay(
        nodes, "cluster", cluster.CLUSTER_DIFFERENCES, cluster.CLUSTER_NOT_HERE, cluster.expect, real._without_ports
    )
    failures = endpoints.failures(tmp_path, lambda case: case.number <= "007")
    adapt, needed = metadata_quorum.expect_error, set(metadata_quorum.NOT_HERE) - set(_VOTERS_CHANGE)
    quorum = real.Replay(nodes, "metadata-quorum", metadata_quorum.DIFFERENCES, needed, adapt, _without_directories)
    failures += quorum.failures(tmp_path, lambda case: case.number <= "019" and case.number not in _VOTERS_CHANGE)
    assert not failures, "\n".join(failures)
