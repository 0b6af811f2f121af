"""The stories of the recorded registry against a real one (`make test-registry`). With KT_RECORD=1 its answers become
the recordings."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest
from support import apicurio
from support.schema_registry import recording
from support.schema_stories import Story


@pytest.mark.parametrize("name", ["subjects", "records", "encoding"])
def test_story(name: str, tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(apicurio.running(tmp_path))
        if os.environ.get("KT_RECORD") == "1":
            url = stack.enter_context(recording(url, name)).url
        getattr(Story(url, tmp_path), name)()
