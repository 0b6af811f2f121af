"""Responses that are almost right: our clients end with results or a KafkaError, in time, and no thread dies."""

from __future__ import annotations

from typing import Any

import pytest
from support.fuzz.responses import fuzz_clients


@pytest.mark.slow
def test_no_response_makes_a_client_fail(run: Any) -> None:
    proxy, outcomes, found = fuzz_clients(run.seed, run.seconds)
    ended = ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
    run.tell(f"{proxy.changed} changed and {proxy.passed} true answers in {sum(outcomes.values())} sessions: {ended}")
    assert proxy.changed > 0
    assert found == []
