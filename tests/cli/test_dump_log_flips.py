"""A sample of the bit flips of support.segment_flips: dump-log finds each one that anything beside the segment shows.

KT_FUZZ_FLIPS=all takes every bit of every codec and layout.
"""

from __future__ import annotations

import os
import pathlib

import pytest
from support import segment_flips

_IS_WHOLE = os.environ.get("KT_FUZZ_FLIPS") == "all"


@pytest.mark.parametrize("codec", segment_flips.CODECS)
@pytest.mark.parametrize("layout", segment_flips.LAYOUTS)
def test_a_flipped_bit_is_found(tmp_path: pathlib.Path, layout: str, codec: str) -> None:
    segment = segment_flips.write_segment(tmp_path, codec, layout)
    assert segment_flips.dump_findings(segment.path) == []
    every, fields = (1, 1) if _IS_WHOLE else (20011, 29)
    outcome = segment_flips.sweep(segment, every, fields)
    assert outcome.missed == []
    assert bool(outcome.hidden) == (layout in ("alone", "compacted"))
