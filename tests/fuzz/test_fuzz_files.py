"""Files of a log directory with bytes changed: through dump-log, and at the start of a broker."""

from __future__ import annotations

import pathlib
import time
from collections import Counter
from random import Random
from typing import Any

import pytest
from support.fuzz.answers import Finding
from support.fuzz.files import FileMaker, disk_of_a_course, dump, open_changed


@pytest.mark.slow
def test_no_file_makes_dump_log_fail(run: Any, tmp_path: pathlib.Path, findings: pathlib.Path) -> None:
    rng = Random(run.seed)
    maker = FileMaker(rng, disk_of_a_course(run.seed, str(tmp_path)), str(tmp_path))
    found: list[str] = []
    count = 0
    end = time.monotonic() + run.seconds
    while time.monotonic() < end and count != run.frames and len(found) < 20:
        count += 1
        case = maker.case()
        try:
            dump(case, tmp_path)
        except Finding as finding:
            findings.mkdir(parents=True, exist_ok=True)
            path = findings / f"file-{len(found)}-{case.name}"
            path.write_bytes(case.data)
            found.append(f"{finding} ({path})")
    run.tell(f"{count} files through dump-log, {len(found)} findings")
    assert found == []


@pytest.mark.slow
def test_no_file_makes_a_broker_fail_without_its_reason(run: Any, tmp_path: pathlib.Path) -> None:
    rng = Random(run.seed)
    disk = disk_of_a_course(run.seed, str(tmp_path))
    found: list[str] = []
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + run.seconds
    while time.monotonic() < end and len(found) < 20:
        try:
            opened = open_changed(disk, str(tmp_path), rng)
            outcomes["started" if opened.refusal is None else "refused"] += 1
        except Finding as finding:
            found.append(str(finding))
    run.tell(f"{sum(outcomes.values())} starts: {dict(outcomes)}, {len(found)} findings")
    assert found == []
