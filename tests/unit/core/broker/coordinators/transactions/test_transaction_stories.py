"""The embedded broker answers courses of transactions as Apache Kafka 4.3.1 did (recorded in
tests/golden/broker/transaction-stories.json by the test of the same stories in tests/real_kafka)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support import two_phase_story
from support.embedded import embedded_broker
from support.transaction_stories import STORIES, golden, tell

SETTINGS = {"transaction_state_log_num_partitions": "4", "offsets_topic_num_partitions": "4"}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("stories"), **SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def durable_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: pathlib.Path = tmp_path_factory.mktemp("durable")
    with embedded_broker(directory, log_durability="fsync", **SETTINGS) as address:
        yield address


@pytest.mark.parametrize("name", STORIES)
def test_answers_are_apache_kafkas(bootstrap: str, name: str) -> None:
    assert tell(bootstrap, name) == golden()[name]


@pytest.mark.parametrize("name", ["old_client", "new_client", "fencing", "offsets"])
def test_answers_are_the_same_when_they_wait_for_the_disk(durable_bootstrap: str, name: str) -> None:
    assert tell(durable_bootstrap, name) == golden()[name]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_two_phase_commit(tmp_path: pathlib.Path, is_enabled: bool) -> None:
    """As Apache Kafka with unstable.api.versions.enable, and with transaction.two.phase.commit.enable or without it."""
    settings = {
        "unstable_api_versions_enable": "true",
        "transaction_two_phase_commit_enable": str(is_enabled).lower(),
        "transaction_state_log_num_partitions": "2",
    }
    with embedded_broker(tmp_path, **settings) as address:
        assert two_phase_story.announced(address) == (0, 6)
        answers = two_phase_story.tell_of_two_phases(address, is_enabled=is_enabled)
        assert answers == two_phase_story.golden(is_enabled=is_enabled)
        if is_enabled:
            two_phase_story.prepare_and_complete(address)
        else:
            refusal = two_phase_story.refused_producer(address)
            assert "transaction.two.phase.commit.enable=true on every broker" in refusal


def test_two_phase_commit_is_not_offered_by_default(bootstrap: str) -> None:
    assert two_phase_story.announced(bootstrap) == (0, 5)
    assert "needs brokers with InitProducerId 6 (KIP-939)" in two_phase_story.refused_producer(bootstrap)
