"""kt undo: every changing command leaves an entry, and undoing it brings the earlier state back.

The state of the cluster is read with the describing commands, which other tests compare with Kafka's tools.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.tools.journal.recorder import Invocation, Recorder, command_name

_SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
_ACL = ("--allow-principal", "User:alice", "--operation", "Read")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker"), **_SETTINGS) as address:
        yield address


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "home"


Kt = Callable[..., Ran]


@pytest.fixture
def kt(bootstrap: str, home: pathlib.Path, tmp_path: pathlib.Path) -> Kt:
    def run(command: str, *words: str, status: ExitStatus = ExitStatus.OK, **options: Any) -> Ran:
        environ = {"KT_HOME": str(home), "KT_JOURNAL": "on", **options.pop("environ", {})}
        server = () if command == "undo" else ("--bootstrap-server", bootstrap)
        directory = options.pop("cwd", tmp_path)
        ran = run_kt(command, *server, *words, environ=environ, cwd=directory, **options)
        assert ran.status == status, (command, words, ran.out, ran.err)
        return ran

    return run


def _rows(ran: Ran) -> list[Any]:
    return [json.loads(line) for line in ran.out.splitlines()]


def _newest(kt: Kt) -> Any:
    return _rows(kt("undo", "list", "--json"))[0]


def _topic(kt: Kt, name: str) -> str:
    kt("topics", "--create", "--topic", name, "--config", "retention.ms=60000")
    return name


def _configs(kt: Kt, *entity: str) -> str:
    return kt("configs", "--describe", *entity, "--json").out


@pytest.mark.parametrize(
    ("entity", "change"),
    [
        (("--broker-defaults",), ("--add-config", "log.cleaner.backoff.ms=20000")),
        (("--user", "alice"), ("--add-config", "producer_byte_rate=1048576,request_percentage=12.5")),
        (("--ip", "127.0.0.9"), ("--add-config", "connection_creation_rate=10")),
    ],
)
def test_settings_are_undone_and_redone(kt: Kt, entity: tuple[str, ...], change: tuple[str, ...]) -> None:
    before = _configs(kt, *entity)
    kt("configs", "--alter", *entity, *change, environ={"KT_JOURNAL": "required"})
    changed = _configs(kt, *entity)
    assert changed != before
    assert _newest(kt)["outcome"] == "done"
    kt("undo", "1", "--yes")
    assert _configs(kt, *entity) == before
    undone = _rows(kt("undo", "list", "--json"))
    assert [(row["number"], row["undoes"], row["undone_by"]) for row in undone] == [(2, 1, None), (1, None, 2)]
    kt("undo", "2", "--yes")
    assert _configs(kt, *entity) == changed
    kt("undo", "1", "--yes")


def test_a_value_that_was_changed_since_is_refused_without_force(kt: Kt) -> None:
    topic = _topic(kt, "conflict")
    kt("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=70000,flush.ms=5")
    number = str(_newest(kt)["number"])
    kt("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=80000")
    changed = _configs(kt, "--topic", topic)
    refused = kt("undo", number, "--yes", status=ExitStatus.FAILED)
    assert "80000 -> 60000; changed since, kt had set 70000" in refused.out
    assert "Values that were changed after entry" in refused.err
    assert _configs(kt, "--topic", topic) == changed
    kt("undo", number, "--yes", "--force")
    described = json.loads(_configs(kt, "--topic", topic))
    found = {entry["name"]: entry["value"] for entry in described["configs"]}
    assert found["retention.ms"] == "60000" and "flush.ms" not in found


def test_a_created_topic_is_deleted_after_a_prompt(kt: Kt) -> None:
    topic = _topic(kt, "made")
    number = str(_newest(kt)["number"])
    shown = kt("undo", number, "--dry-run")
    assert "DANGER: deletes the topic" in shown.out
    kt("undo", number, status=ExitStatus.FAILED)  # stdin is at its end
    kt("undo", number, stdin=b"n\n", status=ExitStatus.FAILED)
    assert topic in kt("topics", "--list").out.split()
    kt("undo", number, stdin=b"y\n")
    assert topic not in kt("topics", "--list").out.split()
    deletion = _newest(kt)
    assert deletion["undoable"] == 0 and deletion["reasons"] == ["its records are gone"]
    again = kt("undo", str(deletion["number"]), status=ExitStatus.FAILED)
    assert "cannot be undone: its records are gone" in again.err


def test_added_partitions_are_shown_with_the_count_before(kt: Kt) -> None:
    topic = _topic(kt, "grown")
    before = _rows(kt("topics", "--describe", "--topic", topic, "--json"))[0]["partition_count"]
    kt("topics", "--alter", "--topic", topic, "--partitions", str(before + 4))
    shown = kt("undo", "show", str(_newest(kt)["number"])).out
    assert f"{before} -> {before + 4}" in shown
    assert "partitions cannot be removed" in shown


def test_another_topic_of_the_same_name_is_never_deleted(kt: Kt) -> None:
    topic = _topic(kt, "twice")
    number = str(_newest(kt)["number"])
    kt("topics", "--delete", "--topic", topic)
    _topic(kt, "twice")
    refused = kt("undo", number, "--yes", "--force", status=ExitStatus.FAILED)
    assert "another one has its name" in refused.out
    assert topic in kt("topics", "--list").out.split()


def test_a_topic_that_was_created_again_before_the_answer_is_kept(kt: Kt) -> None:
    topic = _topic(kt, "meanwhile")
    number = str(_newest(kt)["number"])

    class LateAnswer(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            kt("topics", "--delete", "--topic", topic)
            _topic(kt, "meanwhile")
            return b"y\n"

    refused = kt("undo", number, stdin=LateAnswer(), status=ExitStatus.FAILED)
    assert "Values were changed before the answer. Nothing was undone" in refused.err
    assert topic in kt("topics", "--list").out.split()


def test_acls_are_undone(kt: Kt) -> None:
    kt("acls", "--add", *_ACL, "--topic", "shop")
    number = str(_newest(kt)["number"])
    listed = kt("acls", "--list", "--json").out
    assert "shop" in listed
    kt("undo", number, "--yes")
    assert kt("acls", "--list", "--json").out == ""
    kt("undo", str(_newest(kt)["number"]), "--yes")
    assert kt("acls", "--list", "--json").out == listed
    kt("acls", "--remove", "--topic", "shop", "--force")
    kt("undo", str(_newest(kt)["number"]), "--yes")
    assert kt("acls", "--list", "--json").out == listed
    kt("acls", "--remove", "--topic", "shop", "--force")


def _offset(kt: Kt, group: str) -> Any:
    described = _rows(kt("consumer-groups", "--describe", "--group", group, "--offsets", "--json"))
    return [part["offset"] for row in described for part in row["partitions"]]


@pytest.mark.slow
def test_offsets_of_groups_are_undone(kt: Kt) -> None:
    topic = _topic(kt, "letters")
    kt("console-producer", "--topic", topic, stdin=b"a\nb\nc\n")
    reset = (
        "consumer-groups",
        "--group",
        "readers",
        "--topic",
        topic,
        "--reset-offsets",
        "--execute",
        "--no-undo-file",
    )
    kt(*reset, "--to-offset", "1")
    kt(*reset, "--to-latest")
    number = str(_newest(kt)["number"])
    assert _offset(kt, "readers") == [3]
    kt("undo", number, "--yes")
    assert _offset(kt, "readers") == [1]
    kt("consumer-groups", "--delete", "--group", "readers")
    deletion = _newest(kt)
    kt("undo", str(deletion["number"]), "--yes")
    assert _offset(kt, "readers") == [1]


def test_start_offsets_of_share_groups_are_undone(kt: Kt) -> None:
    topic = _topic(kt, "shared")
    kt("console-producer", "--topic", topic, stdin=b"a\nb\nc\n")
    reset = ("share-groups", "--group", "workers", "--topic", topic, "--reset-offsets", "--execute")
    kt(*reset, "--to-latest")
    kt(*reset, "--to-earliest")
    kt("undo", "last", "--yes")
    kt("share-groups", "--delete", "--group", "workers")
    shown = kt("undo", "last", "--dry-run").out
    assert shown == "~ group workers shared-0: (not set) -> 3\n"
    kt("undo", "last", "--yes")
    described = kt("share-groups", "--describe", "--group", "workers", "--offsets", "--json").out
    assert '"start_offset":3' in described


def test_the_list_says_what_can_be_undone(kt: Kt) -> None:
    topic = _topic(kt, "listed")
    kt("configs", "--alter", "--topic", topic, "--add-config", "flush.ms=9")
    kt("configs", "--alter", "--topic", topic, "--delete-config", "flush.ms")
    kt("undo", "3", "--yes")
    kt("topics", "--delete", "--topic", topic)
    header, *lines = kt("undo", "list").out.splitlines()
    names = header.split()
    assert names == ["NUMBER", "TIME", "USER", "CLUSTER", "OUTCOME", "UNDO", "COMMAND"]
    start, end = header.index("UNDO"), header.index("COMMAND")
    assert [(line.split()[0], line[start:end].strip()) for line in lines] == [
        ("5", "no: its records are gone"),
        ("4", "yes"),
        ("3", "undone by 4"),
        ("2", "yes"),
        ("1", "yes"),
    ]
    assert lines[2][end:].startswith("kt configs --bootstrap-server ")
    (change,) = json.loads(kt("undo", "show", "4", "--json").out)["undo"]
    assert change == {"entity": {"topic": topic}, "set": {}, "delete": ["flush.ms"]}
    (change,) = json.loads(kt("undo", "show", "3", "--json").out)["undo"]
    assert change == {"entity": {"topic": topic}, "set": {"flush.ms": "9"}, "delete": []}


@pytest.mark.slow
def test_deleted_start_offsets_of_share_groups_are_undone(kt: Kt) -> None:
    topic = _topic(kt, "unshared")
    kt("console-producer", "--topic", topic, stdin=b"a\nb\nc\n")
    kt("share-groups", "--group", "crew", "--topic", topic, "--reset-offsets", "--execute", "--to-latest")
    kt("share-groups", "--group", "crew", "--topic", topic, "--delete-offsets")
    assert _newest(kt)["outcome"] == "done"
    kt("undo", "last", "--yes")
    described = kt("share-groups", "--describe", "--group", "crew", "--offsets", "--json").out
    assert '"start_offset":3' in described


@pytest.mark.slow
def test_a_copied_topic_is_undone_on_the_target_cluster(kt: Kt, tmp_path: pathlib.Path) -> None:
    topic = _topic(kt, "copied")
    with embedded_broker(tmp_path / "target") as target:
        kt("copy", topic, "copied-2", "--create", "--to-bootstrap-server", target)
        assert _newest(kt)["bootstrap"] == target
        kt("undo", "last", "--yes")
        listed = run_kt("topics", "--bootstrap-server", target, "--list")
        assert listed.status == ExitStatus.OK and "copied-2" not in listed.out
    assert topic in kt("topics", "--list").out


def test_a_properties_file_is_found_from_another_directory(kt: Kt, tmp_path: pathlib.Path) -> None:
    (tmp_path / "client.properties").write_text("client.id=here\n")
    kt("topics", "--create", "--topic", "from-here", "--command-config", "client.properties")
    (tmp_path / "elsewhere").mkdir()
    kt("undo", "last", "--yes", cwd=tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("kt --profile prod --confirm prod share-groups --delete", "share-groups"),
        ("kt --profile=prod share-groups --delete", "share-groups"),
        ("kt consumer-groups --group share-groups", "consumer-groups"),
        ("kt", ""),
    ],
)
def test_the_command_name_follows_the_profile(words: str, name: str) -> None:
    assert command_name(words.split()) == name


def test_an_applied_file_is_undone_as_one_entry(kt: Kt, tmp_path: pathlib.Path) -> None:
    topic = _topic(kt, "declared")
    before = _configs(kt, "--topic", topic)
    (tmp_path / "cluster.toml").write_text(
        '[topics.declared.configs]\n"retention.ms" = "90000"\n"flush.ms" = "7"\n'
        '[[quotas]]\nuser = "bob"\nproducer_byte_rate = 1000\n'
    )
    kt("apply", "cluster.toml", "--yes")
    entry = _newest(kt)
    assert entry["change_count"] == 3 and entry["undoable"] == 3
    kt("undo", str(entry["number"]), "--yes")
    assert _configs(kt, "--topic", topic) == before
    assert "bob" not in _configs(kt, "--user", "bob")


def test_secrets_are_in_no_entry(kt: Kt, home: pathlib.Path) -> None:
    kt("configs", "--alter", "--user", "carol", "--add-config", "SCRAM-SHA-256=[password=Sesame-open-7]")
    shown = kt("undo", "show", "1")
    assert "[hidden]" in shown.out
    assert not [path for path in home.rglob("*") if path.is_file() and b"Sesame" in path.read_bytes()]
    kt("undo", "1", "--yes")
    kt("configs", "--alter", "--user", "carol", "--add-config", "SCRAM-SHA-256=[password=Sesame-open-8]")
    kt("configs", "--alter", "--user", "carol", "--add-config", "SCRAM-SHA-256=[password=Sesame-open-9]")
    assert _newest(kt)["reasons"] == ["brokers do not reveal passwords"]


@pytest.mark.parametrize("start", ["--add-config=", "--add-config ", "-add-config=", "-add-config "])
@pytest.mark.parametrize("first", ["", "log.cleaner.backoff.ms=20000,"])
def test_a_private_key_is_in_no_entry(kt: Kt, home: pathlib.Path, start: str, first: str) -> None:
    words = f"{start}{first}listener.name.x.ssl.keystore.key=Sesame-open-7".split(" ")
    kt("configs", "--alter", "--broker", "1", *words)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"Sesame" in path.read_bytes()]


@pytest.mark.parametrize("start", ["--hmac ", "-hmac ", "--hmac=", "-hmac="])
def test_an_hmac_is_in_no_entry(kt: Kt, home: pathlib.Path, tmp_path: pathlib.Path, start: str) -> None:
    (tmp_path / "client.properties").write_text("client.id=here\n")
    words = ("--expire", *f"{start}U2VzYW1l".split(" "), "--command-config", "client.properties")
    kt("delegation-tokens", *words, "--expiry-time-period", "-1", status=ExitStatus.FAILED)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"U2VzYW1l" in path.read_bytes()]


def test_entries_are_private_and_dry_runs_leave_none(kt: Kt, home: pathlib.Path) -> None:
    topic = "unmade"
    kt("topics", "--create", "--topic", topic, "--dry-run")
    kt("configs", "--alter", "--broker-defaults", "--add-config", "log.cleaner.backoff.ms=20000", "--dry-run")
    kt("topics", "--list")
    assert not (home / "journal").exists()
    nothing = kt("undo", "list")
    assert nothing.out == "" and "The journal has no entries" in nothing.err
    _topic(kt, "private")
    path = home / "journal" / "000001.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_a_change_without_outcome_is_unknown_and_can_be_undone(kt: Kt, home: pathlib.Path) -> None:
    topic = _topic(kt, "killed")
    before = _configs(kt, "--topic", topic)
    kt("configs", "--alter", "--topic", topic, "--add-config", "flush.ms=9")
    path = home / "journal" / "000002.jsonl"
    run, changes, outcomes = path.read_text().splitlines(keepends=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    alive = json.loads(run)
    for pid, state in ((os.getpid(), "running"), (ended.pid, "unknown")):
        path.write_text(json.dumps(alive | {"pid": pid}) + "\n" + changes + outcomes[:10])  # killed while it wrote
        assert _newest(kt)["outcome"] == state
    kt("undo", "2", "--yes")
    assert _configs(kt, "--topic", topic) == before


def test_a_topic_that_kt_may_not_have_created_is_kept(kt: Kt, home: pathlib.Path) -> None:
    _topic(kt, "maybe-mine")
    path = home / "journal" / "000001.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))  # killed before the answer
    refused = kt("undo", "1", "--yes", "--force", status=ExitStatus.FAILED)
    assert "it is not known whether kt created this topic" in refused.out
    assert "maybe-mine" in kt("topics", "--list").out.split()


def test_a_credential_that_kt_may_not_have_created_is_kept(kt: Kt, home: pathlib.Path) -> None:
    user = ("--entity-type", "users", "--entity-name", "maybe-mine")
    kt("configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    path = home / "journal" / "000001.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))  # killed before the answer
    refused = kt("undo", "1", "--yes", "--force", status=ExitStatus.FAILED)
    assert "it is not known whether kt created this credential" in refused.out
    assert "SCRAM-SHA-256" in kt("configs", "--describe", *user).out


def test_a_name_that_no_request_can_hold_is_the_only_error(kt: Kt) -> None:
    change = ("configs", "--alter", "--client", "a\udcff", "--add-config", "producer_byte_rate=1")
    ran = kt(*change, status=ExitStatus.USAGE)
    assert ran.err.splitlines()[0] == "The value of --client is not UTF-8 text, as brokers need it: byte 0xff"


def test_a_failed_change_is_noted_as_failed(kt: Kt) -> None:
    _topic(kt, "there")
    kt("topics", "--create", "--topic", "there", status=ExitStatus.FAILED)
    entry = _newest(kt)
    assert entry["outcome"] == "failed" and entry["undoable"] == 0
    refused = kt("undo", str(entry["number"]), status=ExitStatus.FAILED)
    assert "none of its changes was made" in refused.err


@pytest.mark.parametrize(
    ("mode", "status", "text"),
    [
        ("on", ExitStatus.OK, "warning: kt undo will not know this change"),
        ("required", ExitStatus.FAILED, "so nothing was changed"),
        ("off", ExitStatus.OK, ""),
        ("of", ExitStatus.USAGE, "KT_JOURNAL is 'of'"),
    ],
)
def test_a_journal_that_cannot_be_written(kt: Kt, home: pathlib.Path, mode: str, status: ExitStatus, text: str) -> None:
    home.write_text("a file, not a directory")
    topic = f"unwritten-{mode}"
    ran = kt("topics", "--create", "--topic", topic, status=status, environ={"KT_JOURNAL": mode})
    assert text in ran.err and ("undo" in ran.err) == (mode == "on")
    listed = kt("topics", "--list", environ={"KT_JOURNAL": "off"}).out.split()
    assert (topic in listed) == (status == ExitStatus.OK)


@pytest.mark.parametrize("is_required", [True, False], ids=["required", "on"])
def test_a_journal_that_is_lost_on_the_way(bootstrap: str, tmp_path: pathlib.Path, is_required: bool) -> None:
    names = [f"lost-{is_required}-{number}".lower() for number in range(3)]
    warnings: list[str] = []
    invocation = Invocation(("kt", "topics"), bootstrap)
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        admin.change_observer = Recorder(
            str(tmp_path), invocation, admin.clock.wall_ms(), warnings.append, is_required=is_required
        )
        create_topics(admin, [NewTopic(names[0], 1, 1)])
        shutil.rmtree(tmp_path / "journal")
        for name in names[1:]:
            refusal = "it was not made; kt undo last shows earlier ones"
            with pytest.raises(CommandError, match=refusal) if is_required else contextlib.nullcontext():
                create_topics(admin, [NewTopic(name, 1, 1)])
    listed = run_kt("topics", "--bootstrap-server", bootstrap, "--list").out.split()
    made = [name for name in names if name in listed]
    assert made == (names[:1] if is_required else names)
    assert len(warnings) == (0 if is_required else 1)


def test_temporary_files_of_killed_runs_are_removed(kt: Kt, home: pathlib.Path) -> None:
    journal = home / "journal"
    journal.mkdir(parents=True)
    old, new, other = (journal / name for name in ("000001.jsonl.77.tmp", "000001.jsonl.78.tmp", "mine.tmp"))
    for path in (old, new, other):
        path.write_text("{")
    for path in (old, other):
        os.utime(path, (0, 0))
    _topic(kt, "after-a-kill")
    assert sorted(path.name for path in journal.iterdir()) == ["000001.jsonl", new.name, other.name]


def test_the_wrong_cluster_is_refused(kt: Kt, tmp_path: pathlib.Path) -> None:
    _topic(kt, "mine")
    with embedded_broker(tmp_path / "other") as address:
        refused = kt("undo", "1", "--bootstrap-server", address, "--yes", status=ExitStatus.FAILED)
    assert "was made on the cluster" in refused.err


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("seventeen",), ExitStatus.USAGE, "'seventeen' is no number of an entry"),
        (("0",), ExitStatus.USAGE, "'0' is no number of an entry"),
        (("7",), ExitStatus.FAILED, "There is no entry 7: the journal is empty"),
        (("--dry-run",), ExitStatus.USAGE, "The number of the entry is missing"),
        (("show",), ExitStatus.USAGE, "The number of the entry is missing"),
        (("1", "2"), ExitStatus.USAGE, "Unexpected argument '2'"),
        (("99",), ExitStatus.FAILED, "There is no entry 99: the journal is empty"),
        (("show", "1", "2"), ExitStatus.USAGE, "Unexpected argument '2'"),
        (("list", "--limit", "0"), ExitStatus.USAGE, "Cannot parse argument '0' of option limit"),
        (("--yes", "list"), ExitStatus.USAGE, "Options follow the subcommand"),
    ],
)
def test_wrong_input_is_named(kt: Kt, words: tuple[str, ...], status: ExitStatus, text: str) -> None:
    assert text in kt("undo", *words, status=status).err


def test_a_damaged_entry_is_named_and_the_others_are_listed(kt: Kt, home: pathlib.Path) -> None:
    _topic(kt, "first")
    _topic(kt, "second")
    path = home / "journal" / "000001.jsonl"
    path.write_text("{}\n")
    listed = kt("undo", "list", "--json", status=ExitStatus.FAILED)
    assert [row["number"] for row in _rows(listed)] == [2]
    assert str(path) in listed.err
    assert str(path) in kt("undo", "1", status=ExitStatus.FAILED).err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"command":[', '"command":5,"words":['),
        ('"time_ms":', '"time_ms":null,"time":'),
        ('"pid":', '"pid":"x","id":'),
        ('"number":1', '"number":7'),
        ('{"topic":', '{"other":'),
        ('"target":{"topic":"torn"}', '"target":[1]'),
    ],
)
def test_an_entry_with_a_wrong_value_is_damaged(kt: Kt, home: pathlib.Path, old: str, new: str) -> None:
    kt("topics", "--create", "--topic", "torn", "--if-not-exists")
    path = home / "journal" / "000001.jsonl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    for words in (("list",), ("show", "1"), ("1", "--dry-run")):
        refused = kt("undo", *words, status=ExitStatus.FAILED)
        assert str(path) in refused.err and "internal error" not in refused.err
