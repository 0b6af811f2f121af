"""KT_CRASH_SEED (text) and KT_CRASH_STATES (how many states of the disk, 240 unless it is set) choose a run; the seed
and what each part did are printed at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.support.recorded_lines import print_recorded

DEFAULT_SEED = "kafkatools"
DEFAULT_STATES = 240


class Run(NamedTuple):
    """The parameters of a run."""

    seed: str
    states: int
    tell: Callable[[str], None]


@pytest.fixture
def run(record_property: Callable[[str, object], None]) -> Run:
    """The run that the environment asks for."""
    seed = os.environ.get("KT_CRASH_SEED", DEFAULT_SEED)
    return Run(
        seed,
        int(os.environ.get("KT_CRASH_STATES", str(DEFAULT_STATES))),
        lambda line: record_property("crash", f"{seed}: {line}"),
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what each part ran."""
    print_recorded(terminalreporter, "crash")
