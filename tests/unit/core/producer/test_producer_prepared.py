"""Prepared transactions (KIP-939): left open by their producer and ended by somebody else, in both transaction
versions. tests/real_kafka/test_real_transactions.py goes the same steps with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.prepared_transactions import STEPS, Steps


@pytest.fixture(scope="module", params=[1, 2])
def steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    with embedded_broker(tmp_path_factory.mktemp("prepared"), num_partitions="2") as bootstrap:
        made = Steps(bootstrap, request.param)
        if made.version == 1:
            made.lower_version()
        yield made


@pytest.mark.parametrize("name", STEPS)
def test_prepared_transactions(steps: Steps, name: str) -> None:
    STEPS[name](steps, f"{name}_{steps.version}")
