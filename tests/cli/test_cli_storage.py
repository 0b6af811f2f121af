"""kt storage against the recordings of kafka-storage.sh, and what it writes against what Apache Kafka writes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import transcripts
from support import apache_kafka
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from transcripts import Difference

from kafkatools.exit_status import ExitStatus

DIFFERENCES = {
    "008": Difference(
        "cluster-id", stderr="Warning: the cluster id nonsense is not a UUID; kt storage random-uuid prints one."
    ),
    "011": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "034": Difference("help", own_words=True),
    "035": Difference("help", own_words=True),
    "036": Difference("help", own_words=True),
}


def test_storage_behaves_as_recorded(tmp_path: pathlib.Path) -> None:
    def run(case: transcripts.Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        return run_kt("storage", *case.args, cwd=tmp_path)

    failures = transcripts.replay(transcripts.load("storage"), run, DIFFERENCES)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()


_SERVER = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:19993
listeners=PLAINTEXT://localhost:19992,CONTROLLER://localhost:19993
controller.listener.names=CONTROLLER
log.dirs={directory}
"""


def test_random_uuid_is_16_bytes_and_does_not_start_with_a_dash() -> None:
    texts = [run_kt("storage", "random-uuid").out.strip() for _ in range(200)]
    assert len(set(texts)) == 200
    assert all(len(text) == 22 and not text.startswith("-") for text in texts)


def test_json_gives_one_object_a_directory(tmp_path: pathlib.Path) -> None:
    import json

    (tmp_path / "s.properties").write_text(_SERVER.format(directory="a,b"))
    ran = run_kt("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "s.properties", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.status == ExitStatus.OK
    assert [(row["directory"], row["kind"]) for row in rows] == [("a", "metadata directory"), ("b", "data directory")]
    info = json.loads(run_kt("storage", "info", "-c", "s.properties", "--json", cwd=tmp_path).out)
    assert info["directories"] == ["a", "b"] and info["metadata"]["directory.id"] == rows[0]["directory_id"]


def test_a_dry_run_of_format_writes_nothing_and_refuses_what_format_would(tmp_path: pathlib.Path) -> None:
    import json

    (tmp_path / "s.properties").write_text(_SERVER.format(directory="a,b"))
    words = ("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "s.properties")
    told = run_kt(*words, "--dry-run", cwd=tmp_path)
    assert (told.status, told.out, told.err) == (
        ExitStatus.OK,
        "Metadata directory a would be formatted with metadata.version 4.3-IV0.\n"
        "Data directory b would be formatted with metadata.version 4.3-IV0.\n",
        "",
    )
    rows = [json.loads(line) for line in run_kt(*words, "--dry-run", "--json", cwd=tmp_path).out.splitlines()]
    assert [(row["directory"], row["formatted"], row["directory_id"]) for row in rows] == [
        ("a", False, None),
        ("b", False, None),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["s.properties"]

    (tmp_path / "b").write_text("in the way")
    assert run_kt(*words, "--dry-run", cwd=tmp_path).err == f"{tmp_path}/b: Not a directory\n"
    (tmp_path / "b").unlink()
    assert run_kt(*words, cwd=tmp_path).status == ExitStatus.OK
    again = run_kt(*words, "--dry-run", cwd=tmp_path)
    assert (again.status, again.out, again.err) == (ExitStatus.FAILED, "", run_kt(*words, cwd=tmp_path).err)


def test_failed_format_with_json_writes_the_error_as_json(tmp_path: pathlib.Path) -> None:
    import json

    ran = run_kt("storage", "format", "--json", "-t", "x", "-c", "absent", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert json.loads(ran.err)["error"]["message"] == "absent: no such properties file"


@pytest.mark.real_kafka
@pytest.mark.slow
def test_apache_kafka_starts_on_a_directory_formatted_here(new_kafka: Callable[..., ApacheKafka]) -> None:
    cluster = new_kafka()
    path = cluster._properties(1)
    formatted = run_kt("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(path))
    assert formatted.status == ExitStatus.OK, formatted.err
    cluster.start(format_first=False)
    cluster.tool("topics", "--create", "--topic", "made-here")
    assert "made-here" in cluster.tool("topics", "--list").splitlines()
    ours = run_kt("storage", "info", "-c", str(path)).out
    theirs = apache_kafka.run_tool("storage", "info", "-c", str(path)).stdout.decode()
    assert ours == theirs
