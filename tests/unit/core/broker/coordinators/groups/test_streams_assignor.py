"""Target tasks of the sticky assignor, held against those of Apache Kafka 4.3.1.

tests/golden/groups/streams_tasks.jsonl.gz was recorded with tests/support/StreamsTasks.java (150 small groups, and 20
with more members, processes and standbys: 1072 9 12 12 5). Members and processes change from round to round, each round
starting from the result of the one before.
"""

from __future__ import annotations

import gzip
import json
import pathlib

from kafkatools.core.broker.coordinators.groups.streams.assignor import MemberTasks, SubtopologyTasks, assign
from kafkatools.core.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks, TaskSet

RECORDED = pathlib.Path(__file__).parents[5] / "golden" / "groups" / "streams_tasks.jsonl.gz"


def plain(tasks: TaskSet) -> dict[str, list[int]]:
    return {key: sorted(partitions) for key, partitions in tasks.items()}


def test_tasks_are_kafkas_round_after_round() -> None:
    stories = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines()]
    assert len(stories) == 170
    for story in stories:
        parts = {key: SubtopologyTasks(*row) for key, row in story["parts"].items()}
        target: dict[str, Tasks] = {}
        for step in story["rounds"]:
            members = {key: MemberTasks(process, target.get(key, NO_TASKS)) for key, process in step["members"].items()}
            target = assign(members, parts, story["standbys"])
            assert {key: [plain(tasks.active), plain(tasks.standby)] for key, tasks in target.items()} == step["result"]
