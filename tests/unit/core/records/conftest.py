"""Fixtures of the tests of core/records."""

from __future__ import annotations

import types
from typing import Any

import pytest
from records_truth import plain_kernel

from kafkatools.core.records import kernel


@pytest.fixture(params=["in use", "plain"])
def kernels(request: pytest.FixtureRequest) -> Any:
    """The functions of all record kernels: the ones in use, and the plain sources."""
    if request.param == "in use":
        return kernel
    merged = types.ModuleType("plain")
    for name in ("_kernel", "_kernel_text", "_scan_kernel"):
        merged.__dict__.update(vars(plain_kernel(name)))
    return merged
