"""Request frames that are almost right: in process, and over sockets beside a healthy client."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.fuzz.courses import (
    BROKER,
    CLUSTER,
    CONTROLLER,
    Failure,
    Tally,
    read_frames,
    replay,
    run_courses,
    shortened,
)
from support.fuzz.sockets import run_over_sockets

CORPUS = sorted((pathlib.Path(__file__).parent / "corpus").glob("*.frames"))
MOST_SHORTENED = 3
MOST_GROWTH_BYTES = 64 << 20


def report(run: Any, failures: list[Failure], directory: pathlib.Path) -> list[str]:
    """Each kind of failure once, with the frames that show it in a file; also among the lines at the end of the run."""
    told: dict[str, str] = {}
    for failure in failures:
        kind = failure.reason[:60]
        if kind not in told:
            kept = shortened(failure) if len(told) < MOST_SHORTENED and failure.kind != "socket" else failure
            told[kind] = f"{failure.reason[:500]} (course {failure.course}, frames in {kept.save(directory)})"
            run.tell(told[kind])
    return list(told.values())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_found_once_is_not_found_again(path: pathlib.Path) -> None:
    assert replay(path.name.split("-")[0], read_frames(path)) is None


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(BROKER,), (CONTROLLER, CLUSTER)], ids=["broker", "cluster"])
def test_no_frame_makes_a_node_fail(run: Any, findings: pathlib.Path, kinds: tuple[str, ...]) -> None:
    tally = Tally()
    run_courses(run.seed, run.seconds, tally, frames=run.frames, kinds=kinds)
    run.tell(str(tally))
    assert tally.frames > 0
    assert report(run, tally.failures, findings) == []


@pytest.mark.slow
def test_no_frame_disturbs_a_broker_or_its_other_clients(run: Any, findings: pathlib.Path) -> None:
    tally, figures = run_over_sockets(run.seed, run.seconds, frames=run.frames)
    rss, descriptors = figures["rss"], figures["descriptors"]
    exchanges, longest_ms = figures["healthy"]
    run.tell(
        f"{tally}; the healthy client had {exchanges} exchanges, the longest {longest_ms} ms; "
        f"{rss[0] >> 20} to {rss[-1] >> 20} MiB, {descriptors[0]} to {descriptors[-1]} descriptors"
    )
    assert tally.frames > 0
    assert report(run, tally.failures, findings) == []
    assert exchanges > 0
    later = rss[len(rss) // 2 :]
    assert not later or later[-1] - later[0] < MOST_GROWTH_BYTES
