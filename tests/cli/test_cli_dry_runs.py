"""--dry-run of commands that change topics: it says what the change then does, refuses what the change would, and
changes nothing. What is in the cluster is told by other commands.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import pytest
from support.kt import Ran, run_kt

from kafkatools.core.admin.topics import PartitionDescription
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.elections import Election, predict_election

Kt = Callable[..., Ran]


@pytest.fixture
def kt(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> Kt:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 3, [(i % 3, admin_tools.START + i) for i in range(12)])

    def run(command: str, *words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
        ran = run_kt(command, "--bootstrap-server", bootstrap, *words, cwd=tmp_path)
        assert ran.status == status, (words, ran.out, ran.err)
        return ran

    return run


@pytest.mark.slow
def test_topics_are_only_looked_at(kt: Kt) -> None:
    new = ("--create", "--topic", "new", "--partitions", "2", "--dry-run")
    assert kt("topics", *new).out == "Topic new would be created: 2 partitions, replication factor 1.\n"
    assert json.loads(kt("topics", *new, "--json").out) == {
        "topic": "new",
        "created": False,
        "partition_count": 2,
        "replication_factor": 1,
    }
    refused = kt("topics", *new, "--config", "retention.ms=soon", status=ExitStatus.FAILED)
    assert "Invalid value soon for configuration retention.ms" in refused.err
    there = kt("topics", "--create", "--topic", "orders", "--if-not-exists", "--dry-run")
    assert (there.out, there.err) == ("", "Nothing would change: topic orders already exists.\n")

    more = kt("topics", "--alter", "--topic", "orders", "--partitions", "5", "--dry-run")
    assert more.out == "Topic orders would get more partitions: 3 -> 5.\n"
    fewer = ("--alter", "--topic", "orders", "--partitions", "2", "--dry-run")
    assert "The topic orders currently has 3 partition(s)" in kt("topics", *fewer, status=ExitStatus.FAILED).err

    kt("topics", "--create", "--topic", "other")
    gone = kt("topics", "--delete", "--topic", "o.*", "--dry-run")
    assert gone.out == "Topic orders would be deleted: 3 partitions.\nTopic other would be deleted: 1 partition.\n"
    assert gone.err == "'o.*' matches 2 topics: orders, other.\n"
    row = json.loads(kt("topics", "--delete", "--topic", "other", "--dry-run", "--json").out)
    assert row == {"topic": "other", "deleted": False, "error": None, "partition_count": 1}

    assert kt("topics", "--list").out == "orders\nother\n"
    described = [json.loads(line) for line in kt("topics", "--describe", "--json").out.splitlines()]
    assert [row["partition_count"] for row in described] == [3, 1]


@pytest.mark.slow
def test_deleted_records_are_foreseen(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("topics", "--create", "--topic", "compacted", "--config", "cleanup.policy=compact")
    kt("topics", "--create", "--topic", "__share_group_state", "--config", "cleanup.policy=delete")
    wanted = [("orders", 0, 3), ("orders", 1, -1), ("orders", 2, 0)]
    refused = [("compacted", 0, -1), ("orders", 2, 5), ("ghost", 0, 1), ("__share_group_state", 0, -1)]

    def write(rows: list[tuple[str, int, int]]) -> tuple[str, str]:
        rows_json = [dict(zip(("topic", "partition", "offset"), row, strict=True)) for row in rows]
        (tmp_path / "o.json").write_text(json.dumps({"partitions": rows_json, "version": 1}))
        return "--offset-json-file", "o.json"

    foreseen_lines = kt("delete-records", *write(wanted), "--dry-run").out.splitlines()
    assert foreseen_lines == [
        "partition: orders-0\tlow_watermark: 0 -> 3\t3 offsets",
        "partition: orders-1\tlow_watermark: 0 -> 4\t4 offsets",
    ]
    rows = [json.loads(line) for line in kt("delete-records", *write(wanted), "--dry-run", "--json").out.splitlines()]
    assert rows[0] == {"topic": "orders", "partition": 0, "low_watermark": 0, "new_low_watermark": 3, "error": None}
    earliest = kt("get-offsets", "--topic", "orders", "--time", "earliest").out
    assert earliest == "orders:0:0\norders:1:0\norders:2:0\n"

    # What is foreseen to fail fails, with the same words.
    dry = kt("delete-records", *write(refused), "--dry-run", status=ExitStatus.FAILED)
    assert (dry.out, len(dry.err.splitlines())) == ("", 4)
    assert kt("delete-records", *write(refused), status=ExitStatus.FAILED).err == dry.err

    kt("delete-records", *write(wanted))
    assert kt("get-offsets", "--topic", "orders", "--time", "earliest").out == "orders:0:3\norders:1:4\norders:2:0\n"
    nothing = kt("delete-records", *write(wanted), "--dry-run")
    assert (nothing.out, nothing.err) == ("", "Nothing would change.\n")


@pytest.mark.slow
def test_no_election_without_another_replica(kt: Kt) -> None:
    everything = ("--election-type", "preferred", "--all-topic-partitions", "--dry-run")
    assert kt("leader-election", *everything).err == "Nothing would change.\n"
    assert kt("leader-election", *everything, "--json").out == ""

    # An election of an absent partition fails with the same words.
    for topic, partition, absence in (
        ("ghost", "0", "ghost-0: No such topic as ghost\n"),
        ("g/host", "0", "g/host-0: No such topic as g/host\n"),
        ("orders", "9", "orders-9: No such partition as orders-9\n"),
    ):
        absent = ("--election-type", "unclean", "--topic", topic, "--partition", partition)
        assert kt("leader-election", *absent, "--dry-run", status=ExitStatus.FAILED).err == absence
        assert absence in kt("leader-election", *absent, status=ExitStatus.FAILED).err


@pytest.mark.parametrize(
    ("leader", "isr", "live", "elr", "preferred", "unclean"),
    [
        # Replicas 1, 2, 3; the new leader of either kind of election, or what becomes of it.
        (1, (1, 2, 3), (1, 2, 3), (), "not_needed", "not_needed"),
        (2, (2, 3, 1), (1, 2, 3), (), 1, "not_needed"),
        (2, (2, 3), (1, 2, 3), (), "failed", "not_needed"),
        (2, (1, 2, 3), (2, 3), (), "failed", "not_needed"),
        (-1, (1,), (2, 3), (), "failed", 2),
        (-1, (), (2, 3), (3,), "failed", 3),
        (-1, (1,), (), (), "failed", "failed"),
    ],
)
def test_elections_are_foreseen(
    leader: int,
    isr: tuple[int, ...],
    live: tuple[int, ...],
    elr: tuple[int, ...],
    preferred: int | str,
    unclean: int | str,
) -> None:
    partition = PartitionDescription(0, leader, 5, (1, 2, 3), isr, (), elr, ())

    def result(found: Election) -> int | str:
        return found.new_leader if found.outcome == "planned" else found.outcome

    assert result(predict_election(partition, live, is_unclean=False)) == preferred
    assert result(predict_election(partition, live, is_unclean=True)) == unclean
