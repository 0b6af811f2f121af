"""After the marker of a clean stop is written, all logs are durable, also the metadata log, which has no checkpoint."""

from __future__ import annotations

import pathlib

import pytest
from support.crash.course import Course
from support.crash.disk import NOTHING

from kafkatools.core.log.format.filenames import CLEAN_SHUTDOWN


@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_the_metadata_is_durable_before_the_marker_of_a_clean_stop_is(tmp_path: pathlib.Path, durability: str) -> None:
    course = Course("clean-stop", durability, str(tmp_path))
    course.run(20, lambda kind, path: None)
    course._create("late", 1, is_compacted=False)
    directory = f"{tmp_path}/__cluster_metadata-0"
    marked: list[bool] = []

    def on_operation(kind: str, path: str) -> None:
        after = course.disk.after_power_loss(NOTHING, course.rng)
        if after.exists(f"{tmp_path}/{CLEAN_SHUTDOWN}"):
            names = [e.name for e in course.disk.list_directory(directory) if e.name.endswith(".log")]
            marked.append(
                all(after.read_bytes(f"{directory}/{n}") == course.disk.read_bytes(f"{directory}/{n}") for n in names)
            )

    course.disk.on_operation = on_operation
    course.broker.stop()
    assert marked and all(marked)
