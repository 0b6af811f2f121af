"""The bit flips of support.segment_flips: dump-log finds each one that anything beside the segment shows.

KT_FUZZ_FLIPS names the layouts (comma-separated, or `all`) in which every bit of each codec's segment is flipped; in
the other layouts it takes every bit outside of the checksums and a sample of the others. Without it both are sampled.
"""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable

import pytest
from support import segment_flips

_LAYOUTS = [layout for layout in os.environ.get("KT_FUZZ_FLIPS", "").split(",") if layout]
_SAMPLE = (20011, 29)
_EVERY_FIELD = (997, 1)
_EVERY_BIT = (1, 1)


@pytest.mark.slow
@pytest.mark.timeout(0 if _LAYOUTS else 300)
@pytest.mark.parametrize("codec", segment_flips.CODECS)
@pytest.mark.parametrize("layout", segment_flips.LAYOUTS)
def test_a_flipped_bit_is_found(
    tmp_path: pathlib.Path, layout: str, codec: str, record_property: Callable[[str, object], None]
) -> None:
    segment = segment_flips.write_segment(tmp_path, codec, layout)
    assert segment_flips.dump_findings(segment.path) == []
    every, fields = _SAMPLE
    if _LAYOUTS:
        every, fields = _EVERY_BIT if {layout, "all"} & set(_LAYOUTS) else _EVERY_FIELD
    begun = time.process_time()
    outcome = segment_flips.sweep(segment, every, fields)
    seconds = time.process_time() - begun
    hidden = sum(outcome.hidden.values())
    told = f"{len(segment.data)} bytes, {outcome.flips} flips, {hidden} that nothing shows, {seconds:.0f} s"
    record_property("fuzz", f"flips {layout} {codec}: {told}")
    assert outcome.missed == []
    assert bool(outcome.hidden) == (layout in ("alone", "compacted"))
