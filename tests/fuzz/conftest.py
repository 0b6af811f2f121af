"""KT_FUZZ_SEED (text), KT_FUZZ_SECONDS (of each part, 10 when it is not set) and KT_FUZZ_FRAMES (stop a part after so
many frames) choose a run; the seed and what each part did are printed at the end."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.support.recorded_lines import print_recorded

DEFAULT_SEED = "kafkatools"
FINDINGS = pathlib.Path(os.environ.get("KT_FUZZ_FINDINGS", "fuzz-findings"))


class Run(NamedTuple):
    """The parameters of a run."""

    seed: str
    seconds: float
    frames: int | None
    tell: Callable[[str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each part three times its seconds and ten minutes more, so that a client that hangs ends the run."""
    seconds = float(os.environ.get("KT_FUZZ_SECONDS", "10"))
    directory = pathlib.Path(__file__).parent
    for item in items:
        if item.path.parent == directory:
            item.add_marker(pytest.mark.timeout(600 + 3 * seconds))


@pytest.fixture
def run(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Run:
    """The run that the environment asks for; the seed is a part's own."""
    environment = os.environ
    seed = f"{environment.get('KT_FUZZ_SEED', DEFAULT_SEED)}/{request.node.name}"
    frames = environment.get("KT_FUZZ_FRAMES")

    def tell(line: str) -> None:
        record_property("fuzz", f"{seed}: {line}")

    return Run(seed, float(environment.get("KT_FUZZ_SECONDS", "10")), int(frames) if frames else None, tell)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what each part ran."""
    print_recorded(terminalreporter, "fuzz")


@pytest.fixture
def findings() -> pathlib.Path:
    """The directory for findings, below the working directory unless KT_FUZZ_FINDINGS is set."""
    return FINDINGS
