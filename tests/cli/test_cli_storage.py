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


_DYNAMIC = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:19993
listeners=PLAINTEXT://localhost:19992,controller://localhost:19993
controller.listener.names=CONTROLLER
log.dirs=a
"""
_KRAFT_VERSION_0 = (
    "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing the "
    "--feature flag for kraft.version."
)
_KRAFT_VERSION_1 = (
    "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, "
    "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of "
    "--standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
)
_ID = "AAAAAAAAAAAAAAAAAAAAAw"


def _format_error(tmp_path: pathlib.Path, settings: str, *words: str) -> str:
    (tmp_path / "s.properties").write_text(settings)
    ran = run_kt("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "s.properties", *words, cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED and not ran.out and not (tmp_path / "a").exists()
    return ran.err.rstrip("\n")


@pytest.mark.parametrize(
    ("voters", "message"),
    [
        (f"=@h:1:{_ID}", "Invalid @ at beginning of dynamic voter string."),
        (f"=-1@h:1:{_ID}", "Invalid negative node id -1 in dynamic voter string."),
        (f"=1_0@h:1:{_ID}", "Failed to parse node id in dynamic voter string: 1_0"),
        ("=1@", "No hostname found after node id."),
        ("=1@h", "No colon following hostname could be found."),
        (f"=1@[::1:9:{_ID}", "Hostname began with left bracket, but no right bracket was found."),
        (f"=1@[::1]x:9:{_ID}", "Port section must start with a colon."),
        ("=1@[::1]:9", "No colon following port could be found."),
        (f"=1@h:x:{_ID}", "Failed to parse port in dynamic voter string: x"),
        (f"=1@h:-1:{_ID}", "Invalid port -1 in dynamic voter string."),
        (f"=1@h:70000:{_ID}", "Invalid port 70000 in dynamic voter string."),
        ("=1@h:9:zzz", "Failed to parse directory ID in dynamic voter string: zzz"),
        (f"=1@h:9:{_ID},1@h:9:AAAAAAAAAAAAAAAAAAAABA", "Node id 1 was specified more than once."),
        ("=,", "No voters given."),
    ],
)
def test_initial_controllers_are_refused_as_by_apache_kafka(tmp_path: pathlib.Path, voters: str, message: str) -> None:
    # the messages of kafka-storage.sh 4.3.1; the text behind a colon is ours
    assert _format_error(tmp_path, _DYNAMIC, f"--initial-controllers{voters}") == message


@pytest.mark.parametrize(
    ("settings", "words", "message"),
    [
        (_DYNAMIC, "--standalone --feature kraft.version=0", _KRAFT_VERSION_0),
        (_DYNAMIC, "--no-initial-controllers --feature kraft.version=0", _KRAFT_VERSION_0),
        (_DYNAMIC, "--standalone --feature kraft.version=2", "No feature:kraft.version with feature level 2"),
        (_SERVER, "--feature kraft.version=1", _KRAFT_VERSION_1),
        (_SERVER, "--no-initial-controllers --feature kraft.version=1", _KRAFT_VERSION_1),
        (_SERVER, "--feature group", "Can't parse feature=level string group: equals sign not found."),
        (_SERVER, "--feature a=1_0", "Can't parse feature=level string a=1_0: unable to parse 1_0 as a short."),
        (_SERVER, "--feature a=99999", "Can't parse feature=level string a=99999: unable to parse 99999 as a short."),
        (_SERVER, "--feature group.version=-1", "No feature:group.version with feature level -1"),
        (_SERVER, "--feature eligible.leader.replicas.version=1 --release-version 3.9",
         "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23"),
        (_SERVER, "--feature metadata.version=25 --release-version 4.0",
         "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."),
        (_SERVER, "--feature metadata.version=1",
         "No MetadataVersion with feature level 1. Valid feature levels are from 7 to 31."),
        (_SERVER, "--feature metadata.version=32",
         "No MetadataVersion with feature level 32. Valid feature levels are from 7 to 31."),
        (_SERVER, "--feature metadata.version=31", "metadata.version 4.4-IV0 is not yet stable."),
        (_SERVER, "--add-scram SCRAM-SHA-256=[name=a,password=b] --release-version 3.4",
         "SCRAM is only supported in metadata.version 3.5-IV2 or later."),
        (_DYNAMIC.replace("broker,controller", "broker"), "--standalone",
         "You can only use --standalone on a controller."),
        (_DYNAMIC.replace("controller://localhost:19993", "controller://localhost:99999"), "--standalone",
         "Invalid port 99999 in dynamic voter string."),
    ],
)  # fmt: skip
def test_levels_are_refused_as_by_apache_kafka(
    tmp_path: pathlib.Path, settings: str, words: str, message: str
) -> None:  # fmt: skip
    # the messages of kafka-storage.sh 4.3.1
    assert _format_error(tmp_path, settings.format(directory="a"), *words.split()) == message


@pytest.mark.parametrize(
    ("settings", "words", "line"),
    [
        (_DYNAMIC, "--standalone", "dynamic metadata voter directory a with metadata.version 4.3-IV0."),
        (_DYNAMIC, "--standalone --release-version 3.8 --feature kraft.version=1",
         "dynamic metadata voter directory a with metadata.version 3.8-IV0."),
        (_DYNAMIC, f"--initial-controllers 1@[::1]:9:{_ID},",
         "dynamic metadata voter directory a with metadata.version 4.3-IV0."),
        (_SERVER, "--feature metadata.version=25", "metadata directory a with metadata.version 4.0-IV3."),
        (_DYNAMIC.replace("broker,controller", "broker"), "--feature kraft.version=1",
         "metadata directory a with metadata.version 4.3-IV0."),
    ],
)  # fmt: skip
def test_levels_and_voters_are_taken_as_by_apache_kafka(
    tmp_path: pathlib.Path, settings: str, words: str, line: str
) -> None:  # fmt: skip
    # the last lines of kafka-storage.sh 4.3.1
    (tmp_path / "s.properties").write_text(settings.format(directory="a"))
    format_ = ("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "s.properties")
    ran = run_kt(*format_, *words.split(), cwd=tmp_path)
    assert (ran.status, ran.err, ran.out.splitlines()[-1]) == (ExitStatus.OK, "", f"Formatting {line}")


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("node.id=1", "node.id=one", "Invalid value one for configuration node.id: Not a number of type INT"),
        ("node.id=1", "node.id=-1", "Invalid value -1 for configuration node.id: Value must be at least 0"),
        ("node.id=1", "node.id=2147483648",
         "Invalid value 2147483648 for configuration node.id: Not a number of type INT"),
        ("broker,controller", "brokr",
         "Invalid value brokr for configuration process.roles: String must be one of: broker, controller"),
        ("broker,controller", "",
         "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"),
        ("log.dirs={directory}", "log.dirs=,", "log.dirs names no directory"),
    ],
)  # fmt: skip
def test_settings_of_a_node_that_cannot_start_are_refused(
    tmp_path: pathlib.Path, setting: str, value: str, message: str
) -> None:
    # ConfigDef's messages; log.dirs without a directory is ours
    settings = _SERVER.replace(setting, value).format(directory="a")
    assert _format_error(tmp_path, settings) == message


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ("cluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=1", "Mismatched cluster IDs between storage directories."),
        ("cluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=2", "Mismatched node IDs between storage directories."),
        (None, "b is not formatted."),
    ],
)
def test_info_names_a_directory_that_differs(tmp_path: pathlib.Path, other: str | None, problem: str) -> None:
    # the lines of kafka-storage.sh 4.3.1
    (tmp_path / "s.properties").write_text(_SERVER.format(directory="a,b"))
    for name, lines in (("a", "cluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=1"), ("b", other)):
        (tmp_path / name).mkdir()
        if lines is not None:
            (tmp_path / name / "meta.properties").write_text(f"version=1\n{lines}\n")
    ran = run_kt("storage", "info", "-c", "s.properties", cwd=tmp_path)
    metadata = "Found metadata: {cluster.id=4L6g3nShT-eMCtK--X86sw, node.id=1, version=1}"
    assert ran.out == f"Found log directories:\n  a\n  b\n\n{metadata}\n\nFound problem:\n  {problem}\n\n"
    assert ran.status == ExitStatus.FAILED


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw", "Failed to find node.id"),
        ("version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=x", "Unable to read node.id as a base-10 number."),
        ("version=1\nnode.id=1", "cluster.id was not found."),
        (
            "version=1\nnode.id=1\ndirectory.id=no",
            "Unable to read directory.id as a Uuid: Input string `no` decoded as 1 bytes, which is not equal to the "
            "expected 16 bytes of a base64-encoded UUID",
        ),
        ("version=x\nnode.id=1", "Invalid meta.properties version string 'x'"),
        ("version=2\ncluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=1", "Unknown meta.properties version number 2"),
        ("version=0\nbroker.id=x", "Unable to read broker.id as a base-10 number."),
    ],
)
def test_info_names_a_meta_properties_that_apache_kafka_cannot_load(
    tmp_path: pathlib.Path, lines: str, problem: str
) -> None:
    # the lines of kafka-storage.sh 4.3.1
    (tmp_path / "s.properties").write_text(_SERVER.format(directory="a"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text(f"{lines}\n")
    ran = run_kt("storage", "info", "-c", "s.properties", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    expected = f"Found log directory:\n  a\n\nFound problem:\n  Error loading a/meta.properties: {problem}\n\n"
    assert ran.out == expected


def test_info_shows_what_apache_kafka_reads_of_a_directory_in_legacy_mode(tmp_path: pathlib.Path) -> None:
    # the lines of kafka-storage.sh 4.3.1
    (tmp_path / "s.properties").write_text(_SERVER.format(directory="a"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("broker.id=07\nfoo=bar\n")
    ran = run_kt("storage", "info", "-c", "s.properties", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert ran.out == (
        "Found log directory:\n  a\n\nFound metadata: {broker.id=7, version=0}\n\nFound problem:\n  The kafka "
        "configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for legacy "
        "mode.\n\n"
    )


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("x", "Invalid feature format: x. Expected format: 'feature=version' (e.g. 'group.version=1')"),
        ("group.version=99999", "Invalid version format: 99999 for feature group.version"),
        ("group.version=1_0", "Invalid version format: 1_0 for feature group.version"),
        ("group.version=9", "Feature level 9 is not supported for feature group.version"),
        ("nosuch=1", "Unknown feature: nosuch"),
        ("metadata.version=3", "Unknown metadata.version 3"),
    ],
)
def test_feature_dependencies_refuses_as_apache_kafka(feature: str, message: str) -> None:
    # the messages of kafka-storage.sh 4.3.1
    ran = run_kt("storage", "feature-dependencies", "-f", feature)
    assert (ran.status, ran.out, ran.err) == (ExitStatus.FAILED, "", f"{message}\n")


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
