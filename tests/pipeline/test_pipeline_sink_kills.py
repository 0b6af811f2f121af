"""Exactly once from topic to topic while the driver is killed; `make soak` kills it more often (tests/soak)."""

from __future__ import annotations

import pathlib

import pytest
from support.embedded import embedded_broker
from support.requirements import require
from support.sink_kills import KilledQuery

KILLS = 2
RECORDS = 4000


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_record_comes_once_through_kills_of_the_driver(tmp_path: pathlib.Path) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        require("PySpark is not installed: pip install '.[spark]'")
    with embedded_broker(tmp_path / "broker") as bootstrap, KilledQuery(bootstrap, tmp_path, 7) as query:
        wanted = query.fill(RECORDS)
        for _ in range(KILLS):
            query.run_and_kill(records=200, longest_s=2)
        query.finish(records=2000)
        assert query.epochs() > KILLS
        assert query.committed() == wanted
        assert query.open_transactions() == []
