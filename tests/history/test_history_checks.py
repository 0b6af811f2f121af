"""Each check of a history finds exactly the anomaly that it is there for, and nothing in a sound history."""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any

import pytest
from support.history.final_logs import ABORT, COMMIT, DATA, OPEN, Entry, Partition, check_replicas, decode
from support.history.group_checks import check_commits, check_processed, check_starts
from support.history.log_checks import check_reads, check_sends
from support.history.metadata_checks import check_metadata
from support.history.progress_checks import check_progress
from support.history.record import FAIL, FOREVER, OK, UNKNOWN, Operation, Recorder, parse, read_histories
from support.history.transaction_checks import check_isolation, check_transactions

from kafkatools.core.records.builder import BatchBuilder

Found = list[str]


def words(problems: Found) -> list[str]:
    """What kind of anomaly each is."""
    return [problem.split(":")[0] for problem in problems]


def log_of(*values: str, fate: str = DATA, first: int = 0) -> Partition:
    return Partition(tuple(Entry(first + i, value, 1, 0, i, fate) for i, value in enumerate(values)))


# -- recording ---------------------------------------------------------------------------------------------------------
def test_an_operation_without_an_answer_is_unknown_and_a_cut_line_is_none(tmp_path: pathlib.Path) -> None:
    recorder = Recorder(str(tmp_path / "a.jsonl"), "a", 3)
    answered, lost = recorder.invoke("send", number=1), recorder.invoke("send", number=2)
    recorder.complete(answered, OK, offset=7)
    recorder.note("read", 5, offsets=[1])
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"process":"a","ru')
    read, sent, unanswered = read_histories(tmp_path)
    assert (sent.outcome, sent.values, sent.result, sent.run) == (OK, {"number": 1}, {"offset": 7}, 3)
    assert (unanswered.outcome, unanswered.id, unanswered.ended_ns) == (UNKNOWN, lost, FOREVER)
    assert (read.kind, read.begun_ns, read.values) == ("read", 5, {"offsets": [1]})
    assert sent.begun_ns < sent.ended_ns


def test_each_line_of_a_history_is_json(tmp_path: pathlib.Path) -> None:
    recorder = Recorder(str(tmp_path / "a.jsonl"), "a", 0)
    recorder.complete(recorder.invoke("send", value="x"), FAIL)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["invoke", "fail"]
    assert [operation.outcome for operation in parse(lines)] == [FAIL]


# -- the log -----------------------------------------------------------------------------------------------------------
PLACE = ("log", 0)


def send(number: int, offset: int | None, begun: int = 0, ended: int = 1, run: int = 0) -> Operation:
    values = {"topic": "log", "partition": 0, "number": number, "value": f"w {run} {number}"}
    result = {} if offset is None else {"offset": offset}
    return Operation("w", "send", values, UNKNOWN if offset is None else OK, begun, ended, run, number, result)


@pytest.mark.parametrize(
    ("log", "sends", "anomalies"),
    [
        (("w 0 0", "w 0 1"), [send(0, 0), send(1, 1)], []),
        (("w 0 0",), [send(0, 0), send(1, None)], []),
        (("w 0 0", "w 0 1"), [send(0, 0), send(1, None)], []),
        (("w 0 0", "w 1 0"), [send(0, 0), send(0, 1, run=1)], []),
        (("w 0 0",), [send(0, 0), send(1, 1)], ["lost"]),
        (("w 0 1",), [send(1, 1)], ["lost"]),
        (("w 0 0", "w 0 0"), [send(0, 0)], ["doubled"]),
        (("w 0 0", "w 0 0"), [send(0, None)], ["doubled"]),
        (("w 0 1", "w 0 0"), [send(0, 1), send(1, 0)], ["reordered"]),
        (("w 0 1", "w 0 0"), [send(0, None), send(1, 0)], ["reordered"]),
        (("w 0 0", "w 1 0"), [send(0, 0, 8, 9), send(0, 1, 1, 2, run=1)], ["reordered"]),
        (("w 0 0", "w 0 1"), [send(0, 0)], ["invented"]),
    ],
    ids=[
        "sound",
        "unknown and absent",
        "unknown and present",
        "two runs",
        "lost",
        "at another offset",
        "doubled",
        "doubled unknown",
        "reordered",
        "reordered unknown",
        "against real time",
        "invented",
    ],
)
def test_sends(log: tuple[str, ...], sends: list[Operation], anomalies: Found) -> None:
    assert words(check_sends(sends, {PLACE: log_of(*log)})) == anomalies


def read(*found: tuple[int, str], session: int = 0, isolation: str = "read_uncommitted", ended: int = 9) -> Operation:
    values: dict[str, Any] = {"topic": "log", "partition": 0, "isolation": isolation, "session": session}
    values |= {"offsets": [offset for offset, _ in found], "read": [value for _, value in found]}
    return Operation("r", "read", values, OK, ended - 1, ended)


A, B, C = (0, "a"), (1, "b"), (2, "c")


@pytest.mark.parametrize(
    ("reads", "anomalies"),
    [
        ([read(A, B), read(C)], []),
        ([read(B, C), read(A, session=1)], []),
        ([read(A), read(C)], ["reader skipped"]),
        ([read(A, B), read(B)], ["reader went back"]),
        ([read(A, (1, "z"))], ["lost after it was read"]),
        ([read(A, B, C, (3, "d"))], ["lost after it was read"]),
    ],
    ids=["sound", "a new session", "skipped", "twice", "changed", "truncated"],
)
def test_reads(reads: list[Operation], anomalies: Found) -> None:
    assert words(check_reads(reads, {PLACE: log_of("a", "b", "c")})) == anomalies


def test_reads_of_committed_records_leave_out_aborted_ones() -> None:
    log = Partition((*log_of("a", fate=COMMIT).entries, *log_of("b", fate=ABORT, first=1).entries,
                     *log_of("c", fate=COMMIT, first=2).entries, *log_of("d", fate=OPEN, first=3).entries,
                     *log_of("e", fate=COMMIT, first=4).entries))  # fmt: skip
    committed = "read_committed"
    assert check_reads([read(A, C, isolation=committed)], {PLACE: log}) == []
    assert words(check_reads([read(A, B, isolation=committed)], {PLACE: log})) == ["non-atomic"]
    assert words(check_reads([read(A, C, (4, "e"), isolation=committed)], {PLACE: log})) == ["non-atomic"]
    assert check_reads([read(A, B, C, (3, "d"))], {PLACE: log}) == []


# -- replicas ----------------------------------------------------------------------------------------------------------
def batch(value: bytes, offset: int, leader_epoch: int = 0, **options: Any) -> bytes:
    builder = BatchBuilder(1 << 16, **options)
    builder.append(0, None, value)
    data = bytearray(builder.close())
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


ONE, TWO = batch(b"a", 0), batch(b"b", 1)


@pytest.mark.parametrize(
    ("copies", "high_watermark", "count"),
    [
        ((ONE + TWO, ONE + TWO), 2, 0),
        ((ONE + TWO, ONE), 1, 0),
        ((ONE + batch(b"x", 1), ONE + TWO), 1, 0),
        ((ONE + TWO, ONE), 2, 2),
        ((ONE + TWO, ONE + batch(b"x", 1)), 2, 1),
        ((ONE + TWO, ONE + batch(b"b", 1, 3)), 2, 1),
    ],
    ids=["equal", "behind above it", "differs above it", "short", "other bytes", "other epoch"],
)
def test_replicas(copies: tuple[bytes, ...], high_watermark: int, count: int) -> None:
    problems = check_replicas(PLACE, dict(enumerate(copies, 1)), high_watermark)
    assert words(problems) == ["divergent"] * count


def test_the_fate_of_a_record_is_that_of_the_next_marker_of_its_producer() -> None:
    def data(value: bytes, offset: int, producer: int) -> bytes:
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        return batch(value, offset, **options)

    def marker(offset: int, producer: int, kind: int) -> bytes:
        options = {"producer_id": producer, "producer_epoch": 0, "is_transactional": True, "is_control": True}
        builder = BatchBuilder(1 << 16, **options)
        builder.append(0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
        made = bytearray(builder.close())
        struct.pack_into(">q", made, 0, offset)
        return bytes(made)

    log = decode(data(b"a", 0, 1) + data(b"b", 1, 2) + marker(2, 1, 1) + marker(3, 2, 0) + data(b"c", 4, 1))
    assert [(entry.value, entry.fate) for entry in log.entries if entry.value] == [
        ("a", COMMIT),
        ("b", ABORT),
        ("c", OPEN),
    ]
    assert [entry.value for entry in log.visible("read_committed")] == ["a"]
    assert [entry.value for entry in log.visible("read_uncommitted")] == ["a", "b", "c"]


# -- transactions ------------------------------------------------------------------------------------------------------
WRITTEN = ("t 0 1 0", "t 0 1 1")


def transaction(outcome: str = OK, number: int = 1) -> Operation:
    values = {"topic": "log", "number": number, "partitions": [0, 1]}
    return Operation("t", "transaction", values, outcome, 0, 9, 0, number)


def commit(outcome: str = OK, number: int = 1, begun: int = 5) -> Operation:
    return Operation("t", "commit", {"transaction": number}, outcome, begun, begun + 1, 0, 100 + number)


def logs(first: Partition, second: Partition) -> dict[tuple[str, int], Partition]:
    return {("log", 0): first, ("log", 1): second}


BOTH, NONE = log_of(*WRITTEN, fate=COMMIT), log_of()
GONE = log_of(*WRITTEN, fate=ABORT)


@pytest.mark.parametrize(
    ("operations", "found", "anomalies"),
    [
        ([transaction(), commit()], logs(BOTH, BOTH), []),
        ([transaction(UNKNOWN), commit(UNKNOWN)], logs(BOTH, BOTH), []),
        ([transaction(UNKNOWN), commit(UNKNOWN)], logs(GONE, NONE), []),
        ([transaction(FAIL)], logs(GONE, NONE), []),
        ([transaction(), commit()], logs(BOTH, NONE), ["non-atomic"]),
        ([transaction(), commit()], logs(BOTH, log_of(WRITTEN[0], fate=COMMIT)), ["non-atomic"]),
        ([transaction(UNKNOWN), commit(UNKNOWN)], logs(BOTH, GONE), ["non-atomic"]),
        ([transaction(FAIL)], logs(BOTH, BOTH), ["non-atomic"]),
        ([transaction(UNKNOWN)], logs(BOTH, BOTH), ["non-atomic"]),
        ([transaction(), commit()], logs(GONE, GONE), ["lost"]),
        ([transaction(), commit()], logs(BOTH, log_of(*WRITTEN, WRITTEN[1], fate=COMMIT)), ["doubled"]),
        ([transaction(), commit()], logs(BOTH, log_of(*WRITTEN[::-1], fate=COMMIT)), ["reordered"]),
        ([], logs(log_of("t 0 1 0", fate=COMMIT), NONE), ["invented"]),
    ],
    ids=[
        "sound",
        "unknown and there",
        "unknown and aborted",
        "aborted",
        "absent from one",
        "half of it in one",
        "unknown and in one",
        "aborted and visible",
        "never committed and visible",
        "lost",
        "doubled",
        "reordered",
        "invented",
    ],
)
def test_transactions(operations: list[Operation], found: dict[tuple[str, int], Partition], anomalies: Found) -> None:
    assert words(check_transactions(operations, found)) == anomalies


def test_transactions_of_a_producer_keep_their_order() -> None:
    other = tuple(value.replace("0 1", "0 2") for value in WRITTEN)
    operations = [transaction(), commit(), transaction(number=2), commit(number=2)]
    sound, wrong = log_of(*WRITTEN, *other, fate=COMMIT), log_of(*other, *WRITTEN, fate=COMMIT)
    assert check_transactions(operations, logs(sound, sound)) == []
    assert words(check_transactions(operations, logs(sound, wrong))) == ["reordered"]


@pytest.mark.parametrize(
    ("operations", "count"),
    [
        ([transaction(), commit(begun=5), read((0, "t 0 1 0"), isolation="read_committed", ended=9)], 0),
        ([transaction(), commit(begun=5), read((0, "t 0 1 0"), isolation="read_committed", ended=4)], 1),
        ([transaction(), read((0, "t 0 1 0"), isolation="read_committed", ended=4)], 1),
        ([transaction(), commit(begun=5), read((0, "t 0 1 0"), ended=4)], 0),
    ],
    ids=["after the commit", "before it", "without one", "uncommitted"],
)
def test_isolation(operations: list[Operation], count: int) -> None:
    assert words(check_isolation(operations)) == ["non-atomic"] * count


# -- groups ------------------------------------------------------------------------------------------------------------
def processed(*offsets: int, process: str = "m", begun: int = 0) -> Operation:
    values = {"group": "g", "partition": 0, "offsets": list(offsets)}
    return Operation(process, "process", values, OK, begun, begun + 1)


def committed(end: int, generation: int | None, begun: int, outcome: str = OK) -> Operation:
    values = {"group": "g", "ends": [[0, end]], "member": "m"}
    return Operation("m", "commit_offsets", values, outcome, begun, begun + 1, result={"generation": generation})


def assigned(begun: int, process: str = "m") -> Operation:
    return Operation(process, "assigned", {"partitions": [0]}, OK, begun, begun)


def test_every_record_is_processed() -> None:
    operations = [processed(0, 1), processed(1, 2, process="n")]
    assert check_processed(operations, ["g"], {0: 3}) == []
    assert words(check_processed(operations, ["g"], {0: 4})) == ["lost"]
    assert words(check_processed(operations, ["g", "h"], {0: 3})) == ["lost"]


@pytest.mark.parametrize(
    ("commits", "anomalies"),
    [
        ([committed(3, 1, 0), committed(5, 1, 2), committed(4, 2, 4)], []),
        ([committed(5, 1, 0), committed(3, 1, 0)], []),
        ([committed(5, 2, 0), committed(3, 1, 2, FAIL)], []),
        ([committed(5, None, 0), committed(3, 1, 2)], []),
        ([committed(5, 1, 0), committed(3, 1, 2)], ["went back"]),
        ([committed(5, 2, 0), committed(6, 1, 2)], ["zombie"]),
    ],
    ids=["sound", "at the same time", "refused zombie", "generation not known", "went back", "zombie"],
)
def test_commits_of_members(commits: list[Operation], anomalies: Found) -> None:
    assert words(check_commits(commits)) == anomalies


@pytest.mark.parametrize(("start", "is_sound"), [(5, True), (4, False)])
def test_a_member_goes_on_where_the_last_commit_ended(start: int, is_sound: bool) -> None:
    operations = [assigned(0, "n"), processed(0, 1, process="n", begun=1), committed(5, 1, 2), assigned(4)]
    problems = check_starts([*operations, processed(start, begun=5)])
    assert words(problems) == ([] if is_sound else ["went back"])


# -- metadata ----------------------------------------------------------------------------------------------------------
def change(kind: str, begun: int, ended: int, outcome: str = OK, error: str = "", **values: Any) -> Operation:
    end = FOREVER if outcome == UNKNOWN else ended
    result = {"error": error} if error else {}
    return Operation("a", kind, {"topic": "t", **values}, outcome, begun, end, result=result)


def seen(begun: int, value: int | None, broker: int | None = 1, *, settled: bool = False) -> Operation:
    values = {"topic": "t", "broker": broker, "settled": settled}
    result = {"exists": False} if value is None else {"exists": True, "value": value}
    return Operation("r", "configs", values, OK, begun, begun + 1, result=result)


CREATED = change("create", 0, 1, value=1, count=1)
ALTERED = change("alter", 10, 11, value=2)
MAYBE = change("alter", 20, 0, UNKNOWN, value=3)


@pytest.mark.parametrize(
    "operations",
    [
        [CREATED, seen(2, 1), ALTERED, seen(12, 2)],
        [CREATED, ALTERED, seen(12, 1)],
        [CREATED, ALTERED, seen(12, 2, 1), seen(14, 1, 2)],
        [CREATED, ALTERED, MAYBE, seen(30, 2), seen(99, 3)],
        [CREATED, ALTERED, MAYBE, seen(99, 2, settled=True)],
        [CREATED, change("alter", 5, 0, UNKNOWN, value=3), ALTERED, seen(12, 2), seen(30, 3)],
        [CREATED, change("create", 2, 3, FAIL, "TOPIC_ALREADY_EXISTS", value=5, count=1), seen(9, 1)],
        [CREATED, change("delete", 2, 3), seen(4, None), change("create", 5, 6, value=7, count=1), seen(8, 7)],
        [CREATED, change("partitions", 2, 3, count=3), change("partitions", 4, 5, FAIL, "INVALID_PARTITIONS", count=2)],
    ],
    ids=[
        "sound",
        "stale",
        "two brokers",
        "unknown and late",
        "unknown and never",
        "late, behind another one",
        "exists",
        "deleted",
        "partitions",
    ],
)
def test_linearizable_metadata(operations: list[Operation]) -> None:
    assert check_metadata(operations) == ([], 0)


@pytest.mark.parametrize(
    "operations",
    [
        [CREATED, seen(2, 9)],
        [CREATED, seen(2, 2), ALTERED],
        [CREATED, ALTERED, seen(12, 2), seen(14, 1)],
        [CREATED, ALTERED, seen(99, 1, settled=True)],
        [CREATED, MAYBE, seen(22, 3, 1), change("alter", 25, 26, value=4), seen(27, 4, 1), seen(30, 3, 1)],
        [CREATED, change("delete", 2, 3), change("alter", 5, 6, value=4)],
        [CREATED, change("create", 2, 3, value=5, count=1)],
        [CREATED, change("partitions", 2, 3, count=3), change("partitions", 4, 5, count=2)],
        [change("alter", 2, 3, value=4)],
    ],
    ids=[
        "invented",
        "from the future",
        "a broker goes back",
        "lost",
        "applied twice",
        "altered after its end",
        "created twice",
        "fewer partitions",
        "of no topic",
    ],
)
def test_metadata_that_no_order_explains(operations: list[Operation]) -> None:
    problems, undecided = check_metadata(operations)
    assert (words(problems), undecided) == (["non-linearizable"], 0)


# -- progress ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("begun", "ended", "outcome", "is_sound"),
    [(100, 120, OK, True), (100, 140, OK, False), (99, 120, OK, False), (100, 120, FAIL, False)],
    ids=["in time", "too late", "began before the heal", "failed"],
)
def test_progress(begun: int, ended: int, outcome: str, is_sound: bool) -> None:
    operations = [Operation("w", "send", {}, outcome, begun, ended)]
    problems = check_progress(operations, {"w": ("send",)}, healed_ns=100, within_ns=30)
    assert words(problems) == ([] if is_sound else ["stuck"])


def test_the_histories_of_all_processes_are_read(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        Recorder(str(tmp_path / f"{name}.jsonl"), name, 0).note("read", 1)
    assert sorted(operation.process for operation in read_histories(tmp_path)) == ["a", "b"]
