"""What a test needs and this machine may lack: a skip, or a failure where all must be there (KT_REQUIRE_ALL=1)."""

from __future__ import annotations

import os

import pytest


def require(reason: str) -> None:
    """Ends the test: something it needs is missing."""
    if os.environ.get("KT_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
