"""Bodies and record batches that are almost right, through the codecs alone."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.fuzz.codecs import check_kept, run_codecs

CORPUS = sorted((pathlib.Path(__file__).parent / "corpus").glob("*.frame"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_a_codec_got_wrong_once_is_right(path: pathlib.Path) -> None:
    check_kept(path.stem, path.read_bytes())


@pytest.mark.slow
def test_no_frame_makes_a_codec_fail(run: Any, findings: pathlib.Path) -> None:
    tally = run_codecs(run.seed, run.seconds, frames=run.frames)
    run.tell(str(tally))
    assert tally.frames > 0
    first = {found.name + found.reason[:40]: found for found in tally.findings}
    assert [f"{found.reason[:500]} ({found.save(findings)})" for found in first.values()] == []
