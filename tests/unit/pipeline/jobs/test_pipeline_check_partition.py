"""What `check` finds between the files of a partition; copies of recorded directories, each spoiled in one way."""

from __future__ import annotations

import pathlib
import shutil

from support import recorded_segments

from kafkatools.core.log.format.transaction_index import ENTRY, ENTRY_SIZE
from kafkatools.pipeline.jobs.check_files import DAMAGE, WARNING, Problem, check_segment
from kafkatools.pipeline.jobs.check_partition import check_partition


def copy_of(name: str, tmp_path: pathlib.Path, partition: str) -> pathlib.Path:
    target = tmp_path / partition
    shutil.copytree(recorded_segments.log_directory(name), target)
    return target


def problems_of(directory: pathlib.Path) -> list[Problem]:
    facts = [check_segment(str(path))[1] for path in sorted(directory.glob("*.log"))]
    return check_partition(str(directory), facts)


def test_missing_entry_of_a_transaction_index(tmp_path: pathlib.Path) -> None:
    directory = copy_of("txn-librdkafka", tmp_path, "payments-0")
    (index,) = directory.glob("*.txnindex")
    data = index.read_bytes()
    gone = ENTRY.unpack_from(data, ENTRY_SIZE)
    index.write_bytes(data[:ENTRY_SIZE] + data[2 * ENTRY_SIZE :])
    (problem,) = problems_of(directory)
    assert (
        problem.problem
        == f"the aborted transaction of producer {gone[1]} from offset {gone[2]} to {gone[3]} is missing"
    )
    assert (problem.file, problem.severity) == (str(index), DAMAGE)


def test_entry_of_a_transaction_that_was_committed(tmp_path: pathlib.Path) -> None:
    directory = copy_of("txn-librdkafka", tmp_path, "payments-0")
    (index,) = directory.glob("*.txnindex")
    version, producer_id, first, last, stable = ENTRY.unpack_from(index.read_bytes(), 0)
    index.write_bytes(ENTRY.pack(version, producer_id + 1, first, last, stable) + index.read_bytes()[ENTRY_SIZE:])
    texts = [each.problem for each in problems_of(directory)]
    entry = f"entry of producer {producer_id + 1}, offsets {first} to {last}"
    assert f"{entry}: offset {last} aborts for producer {producer_id}" in texts
    assert f"the aborted transaction of producer {producer_id} from offset {first} to {last} is missing" in texts


def test_transactions_over_several_segments_need_every_index(tmp_path: pathlib.Path) -> None:
    directory = copy_of("txn-java", tmp_path, "transfers-0")
    expected = sum(path.stat().st_size // ENTRY_SIZE for path in directory.glob("*.txnindex"))
    for path in directory.glob("*.txnindex"):
        path.unlink()
    assert len(problems_of(directory)) == expected > 2


def test_segment_that_is_missing_is_a_hole(tmp_path: pathlib.Path) -> None:
    directory = copy_of("multi-segment", tmp_path, "ledger-0")
    logs = sorted(directory.glob("*.log"))
    first, second, third = (int(path.stem) for path in logs[:3])
    for path in directory.glob(f"{second:020d}*"):
        path.unlink()
    (problem,) = problems_of(directory)
    assert first < second
    text = (f"offset {second - 1} is followed by {third}", f"{third - second} offsets", WARNING)
    assert (problem.problem, problem.lost, problem.severity) == text
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")
    assert [each.severity for each in problems_of(directory)] == [DAMAGE]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nledger 0 100\n")
    assert problems_of(directory) == []


def test_segments_that_overlap(tmp_path: pathlib.Path) -> None:
    directory = copy_of("multi-segment", tmp_path, "ledger-0")
    first, second = sorted(directory.glob("*.log"))[:2]
    for path in directory.glob(f"{second.stem}*"):
        path.rename(directory / path.name.replace(second.stem, f"{int(second.stem) - 1:020d}"))
    problems = problems_of(directory)
    assert problems[0].problem.startswith(
        f"begins at offset {int(second.stem) - 1}, but the previous segment ends with "
    )
    assert int(first.stem) < int(second.stem)


def test_leader_epochs_that_the_batches_contradict(tmp_path: pathlib.Path) -> None:
    directory = copy_of("leader-epochs", tmp_path, "shipments-0")
    path = directory / "leader-epoch-checkpoint"
    version, count, *entries = path.read_text().splitlines()
    assert problems_of(directory) == [] and len(entries) == 3
    start = entries[1].split()[1]
    path.write_text("\n".join([version, "2", entries[0], entries[2]]) + "\n")
    (problem,) = problems_of(directory)
    assert problem.problem == f"the checkpoint has epoch 0 for offset {start}, but the batch there has epoch 2"
    path.write_text("\n".join([version, count, entries[1], entries[0], entries[2]]) + "\n")
    assert any("after epoch 2" in each.problem for each in problems_of(directory))
    path.write_text("nonsense")
    assert [each.kind for each in problems_of(directory)] == ["leader-epoch-checkpoint"]
    path.unlink()
    assert [each.problem for each in problems_of(directory)] == ["there is no such file"]


def test_batches_before_the_log_start_have_no_entry_in_the_epoch_checkpoint(tmp_path: pathlib.Path) -> None:
    """DeleteRecords moves the log start into a segment; the broker then rewrites the first entry to begin there."""
    directory = copy_of("leader-epochs", tmp_path, "shipments-0")
    path = directory / "leader-epoch-checkpoint"
    version, count, first, *others = path.read_text().splitlines()
    epoch, start = map(int, first.split())
    path.write_text("\n".join([version, count, f"{epoch} {start + 1}", *others]) + "\n")
    assert problems_of(directory) == []
    path.write_text("\n".join([version, str(len(others)), *others]) + "\n")
    assert problems_of(directory) == []
    path.write_text(f"{version}\n0\n")
    assert {each.problem for each in problems_of(directory)} >= {
        f"the checkpoint has no epoch for offset {start}, but the batch there has epoch {epoch}"
    }


def test_files_without_a_segment(tmp_path: pathlib.Path) -> None:
    directory = copy_of("multi-segment", tmp_path, "ledger-0")
    (directory / f"{99999:020d}.index").write_bytes(b"")
    (directory / f"{0:020d}.log.swap").write_bytes(b"")
    assert [(each.severity, pathlib.Path(each.file).name) for each in problems_of(directory)] == [
        (WARNING, f"{0:020d}.log.swap"),
        (DAMAGE, f"{99999:020d}.index"),
    ]
