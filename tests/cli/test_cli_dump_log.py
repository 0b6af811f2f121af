"""kt dump-log against the recordings of kafka-dump-log.sh about its arguments."""

from __future__ import annotations

import pathlib

import transcripts
from support.kt import Ran, run_kt
from transcripts import Difference

from kafkatools.exit_status import ExitStatus

DIFFERENCES = {
    "003": Difference("dump-missing-file", stderr="00000000000000000000.log: no such file"),
    "004": Difference("dump-goes-on", stdout="Dumping a.log\nDumping b.log\n", stderr="a.log: no such file"),
    "005": Difference("dump-unknown-suffix", status=ExitStatus.FAILED),
    "006": Difference(
        "dump-goes-on",
        stderr='notes.log: For input string: "notes"; the name of a segment or index begins with its base offset, such'
        " as 00000000000000000000.log",
    ),
    "008": Difference(
        "dump-findings",
        status=ExitStatus.FINDINGS,
        stderr="00000000000000000007.log at byte 0: the log ends here; 112 bytes are not part of a whole batch",
    ),
    "009": Difference("dump-directory", status=ExitStatus.FAILED, own_words=True),
    "010": Difference("dump-unknown-suffix", status=ExitStatus.FAILED),
    "012": Difference(
        "numbers",
        status=ExitStatus.USAGE,
        stdout="",
        stderr="Cannot parse argument 'big' of option max-message-size",
    ),
    "013": Difference("numbers", stdout=""),
    "015": Difference("dump-decoder", status=ExitStatus.USAGE, own_words=True),
    "016": Difference("dump-decoder", status=ExitStatus.USAGE, own_words=True),
    "021": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", own_words=True),
    "026": Difference("help", status=ExitStatus.OK, own_words=True),
}


def test_dump_log_behaves_as_recorded(tmp_path: pathlib.Path) -> None:
    def run(case: transcripts.Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        return run_kt("dump-log", *case.args, cwd=tmp_path)

    failures = transcripts.replay(transcripts.load("dump-log"), run, DIFFERENCES)
    assert not failures, "\n".join(failures)


def test_a_directory_without_anything_to_dump_is_a_failure(tmp_path: pathlib.Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("")
    ran = run_kt("dump-log", "--files", "none,00000000000000000000.log", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert ran.out == "Dumping 00000000000000000000.log\nLog starting offset: 0\n"
    assert ran.err == "none: no segments, indexes or snapshots in this directory\n"


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
