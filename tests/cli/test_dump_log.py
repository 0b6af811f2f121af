"""kt dump-log beyond Kafka's tool: going on behind damage, JSON, directories, never writing, exit statuses."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

import pytest
from support import recorded_segments
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus

LOG = "00000000000000000152.log"


def rows(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def of_type(ran: Ran, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows(ran) if row["type"] == kind]


def batch_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("baseOffset: ")]


def test_dump_goes_on_behind_a_batch_of_zeros() -> None:
    directory = recorded_segments.log_directory("damaged-zero-middle")
    sound = recorded_segments.log_directory("multi-segment")
    ran = run_kt("dump-log", "--files", LOG, cwd=directory)
    whole = run_kt("dump-log", "--files", LOG, cwd=sound)
    lost = [line for line in batch_lines(whole.out) if " position: 4681 " in line]
    assert len(lost) == 1
    assert batch_lines(ran.out) == [line for line in batch_lines(whole.out) if line not in lost]
    assert ran.status is ExitStatus.FINDINGS
    assert f"{LOG} at byte 4681: Found record size 0 smaller than minimum record overhead (14)" in ran.err
    assert "608 bytes lost, continuing at byte 5289" in ran.err


def test_other_files_are_dumped_after_a_damaged_one(tmp_path: pathlib.Path) -> None:
    shutil.copytree(recorded_segments.log_directory("damaged-zero-middle"), tmp_path / "log")
    shutil.copy(recorded_segments.log_directory("plain-java") / "00000000000000000000.log", tmp_path / "log")
    ran = run_kt("dump-log", "--files", f"{LOG},00000000000000000000.log", cwd=tmp_path / "log")
    assert "Dumping 00000000000000000000.log\nLog starting offset: 0\nbaseOffset: 0 " in ran.out
    assert ran.status is ExitStatus.FINDINGS


def test_length_beyond_the_end_ends_the_log_unless_salvaged() -> None:
    directory = recorded_segments.log_directory("damaged-length-beyond-eof")
    plain = run_kt("dump-log", "--files", LOG, cwd=directory)
    salvaged = run_kt("dump-log", "--files", LOG, "--salvage", cwd=directory)
    assert plain.out.endswith(f"Found 14174 invalid bytes at the end of {LOG}\n")
    assert "a valid batch begins at byte 2691" in plain.err
    assert salvaged.out.startswith(plain.out)
    whole = run_kt("dump-log", "--files", LOG, cwd=recorded_segments.log_directory("multi-segment"))
    assert len(batch_lines(salvaged.out)) == len(batch_lines(whole.out)) - 1


@pytest.mark.parametrize(
    ("directory", "file", "said"),
    [
        ("damaged-bitflip-payload-middle", "00000000000000000309.log", "the checksum is wrong"),
        ("damaged-magic-3", "00000000000000000000.log", "magic byte 3 instead of 2"),
        ("damaged-leader-epoch", LOG, "leader epoch 0 after epoch 9"),
        ("damaged-base-offset", LOG, "offset 146 where 186 or more is expected"),
        ("damaged-batch-duplicated", LOG, "offset 204 where 211 or more is expected"),
    ],
)
def test_damage_that_kafka_passes_over_is_found(directory: str, file: str, said: str) -> None:
    ran = run_kt("dump-log", "--files", file, cwd=recorded_segments.log_directory(directory))
    assert said in ran.err
    assert ran.status is ExitStatus.FINDINGS


def test_nothing_is_written_to_what_is_read(tmp_path: pathlib.Path) -> None:
    for name in ("damaged-index-missing", "damaged-index-size-not-multiple", "damaged-timeindex-size-not-multiple"):
        log = tmp_path / name
        shutil.copytree(recorded_segments.log_directory(name), log)
        before = digests(log)
        run_kt("dump-log", "--files", str(log))
        run_kt("dump-log", "--files", str(log), "--index-sanity-check")
        run_kt("dump-log", "--files", str(log / "00000000000000000152.index"))
        assert digests(log) == before


def digests(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def test_directory_stands_for_its_files(tmp_path: pathlib.Path) -> None:
    shutil.copytree(recorded_segments.log_directory("multi-segment"), tmp_path / "ledger-0")
    (tmp_path / "ledger-0" / "notes.txt").write_text("no segment")
    ran = run_kt("dump-log", "--files", "ledger-0", cwd=tmp_path)
    dumped = [line.removeprefix("Dumping ") for line in ran.out.splitlines() if line.startswith("Dumping ")]
    suffixes = {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
    expected = sorted(
        str(path.relative_to(tmp_path)) for path in (tmp_path / "ledger-0").iterdir() if path.suffix in suffixes
    )
    assert dumped == expected
    assert ran.status is ExitStatus.OK


def test_missing_and_unknown_files_fail_but_the_others_are_dumped() -> None:
    directory = recorded_segments.log_directory("plain-java")
    ran = run_kt("dump-log", "--files", "00000000000000000009.log,x.txt,00000000000000000000.log", cwd=directory)
    assert ran.status is ExitStatus.FAILED
    assert "00000000000000000009.log: no such file" in ran.err
    assert "Ignoring unknown file x.txt" in ran.err
    assert "baseOffset: 0 " in ran.out


def test_json_records_hold_every_byte() -> None:
    directory = recorded_segments.log_directory("plain-java")
    ran = run_kt("dump-log", "--files", "00000000000000000000.log", "--print-data-log", "--json", cwd=directory)
    records = {row["offset"]: row for row in of_type(ran, "record")}
    assert records[0]["value"] == "tulip basil raven ember nutmeg"
    assert records[3]["value"] is None
    assert records[4]["value"] == ""
    assert records[5]["key"] is None
    assert any(isinstance(row["value"], dict) and set(row["value"]) == {"b64"} for row in records.values())
    assert records[15]["headers"][0][0] == "Grüße aus Köln"
    assert len(of_type(ran, "batch")) == 10
    assert ran.status is ExitStatus.OK


def test_json_tells_findings_and_goes_on() -> None:
    directory = recorded_segments.log_directory("damaged-zero-middle")
    ran = run_kt("dump-log", "--files", LOG, "--json", cwd=directory)
    (finding,) = of_type(ran, "finding")
    assert (finding["file"], finding["position"]) == (LOG, 4681)
    assert [row["position"] for row in of_type(ran, "batch")].count(5289) == 1
    assert ran.err == ""
    assert ran.status is ExitStatus.FINDINGS


def test_json_decodes_internal_topics_into_objects() -> None:
    directory = recorded_segments.log_directory("cluster-metadata")
    arguments = ("--cluster-metadata-decoder", "--json", "--files", "00000000000000000000.log")
    ran = run_kt("dump-log", *arguments, cwd=directory)
    decoded = [row["decoded_value"] for row in of_type(ran, "record") if "decoded_value" in row]
    first = {"type": "BEGIN_TRANSACTION_RECORD", "version": 0, "data": {"name": "Bootstrap records"}}
    assert decoded[0] == first
    assert of_type(ran, "record")[0]["control"].startswith("LeaderChange: ")


def test_json_index_entries_say_whether_they_match() -> None:
    directory = recorded_segments.log_directory("damaged-index-wrong-offset")
    ran = run_kt("dump-log", "--files", "00000000000000000152.index", "--json", cwd=directory)
    wrong = [row for row in of_type(ran, "offset_index_entry") if not row["matches"]]
    assert [(row["offset"], row["batch_last_offset"]) for row in wrong] == [(202, 203)]
    assert ran.status is ExitStatus.FINDINGS


def test_json_of_the_small_files() -> None:
    directory = recorded_segments.log_directory("txn-java")
    ran = run_kt(
        "dump-log", "--json", "--files", "00000000000000000033.snapshot,00000000000000000000.txnindex", cwd=directory
    )
    producers = of_type(ran, "producer")
    assert [row["producer_id"] for row in producers] == [7, 8, 9]
    assert [row["current_transaction_first_offset"] for row in producers] == [None, 27, 30]
    assert [row["first_offset"] for row in of_type(ran, "aborted_transaction")] == [12, 19]


def test_json_failure_is_an_error_object() -> None:
    ran = run_kt(
        "dump-log", "--files", "00000000000000000009.log", "--json", cwd=recorded_segments.log_directory("plain-java")
    )
    assert json.loads(ran.err)["error"]["message"].endswith("no such file")
    assert ran.status is ExitStatus.FAILED


def test_batches_inside_one_with_a_wrong_length_are_salvaged(tmp_path: pathlib.Path) -> None:
    data = bytearray((recorded_segments.log_directory("multi-segment") / LOG).read_bytes())
    data[2171 + 8 : 2171 + 12] = (4681 - 2171 - 12).to_bytes(4, "big")
    (tmp_path / LOG).write_bytes(data)
    plain = run_kt("dump-log", "--files", LOG, cwd=tmp_path)
    salvaged = run_kt("dump-log", "--files", LOG, "--salvage", cwd=tmp_path)
    assert " position: 2691 " not in plain.out
    assert "at byte 2171: a valid batch begins inside it, at byte 2691" in plain.err
    assert " position: 2691 " in salvaged.out
    assert " position: 4681 " in plain.out and " position: 4681 " in salvaged.out


def test_pipe_is_refused_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    for name in ("00000000000000000009.log", "00000000000000000009.snapshot"):
        os.mkfifo(tmp_path / name)
        ran = run_kt("dump-log", "--files", name, cwd=tmp_path)
        assert f"{name}: not a regular file" in ran.err
        assert ran.status is ExitStatus.FAILED


def test_records_before_damage_in_a_batch_are_not_called_lost(tmp_path: pathlib.Path) -> None:
    name = "00000000000000000000.log"
    data = bytearray((recorded_segments.log_directory("multi-segment") / name).read_bytes()[:369])
    data[-60:] = b"\xff" * 60
    (tmp_path / name).write_bytes(data)
    deep = run_kt("dump-log", "--files", name, "--print-data-log", cwd=tmp_path)
    assert deep.status is ExitStatus.FINDINGS
    assert "| offset: 0 " in deep.out
    assert "records before it are shown although the checksum is wrong; at most 369 bytes lost" in deep.err
    assert "no valid batch follows" in deep.err
