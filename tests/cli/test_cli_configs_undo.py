"""kt configs --undo-file, --from-file and --dry-run: what is noted before a change brings everything back.

What stands in the cluster is read with --describe, which test_cli_configs.py checks against Kafka's.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus

Kt = Callable[..., Ran]
_NOWHERE = ("--bootstrap-server", "127.0.0.1:9")


@pytest.fixture
def kt(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> Kt:
    bootstrap = start_broker()

    def run(*words: str, status: ExitStatus = ExitStatus.OK, command: str = "configs") -> Ran:
        ran = run_kt(command, "--bootstrap-server", bootstrap, *words, cwd=tmp_path)
        assert ran.status == status, (words, ran.out, ran.err)
        return ran

    run("--create", "--topic", "orders", "--config", "retention.ms=60000", command="topics")
    return run


_ENTITIES: tuple[tuple[tuple[str, ...], ...], ...] = (
    # what is set beforehand, and what is then done to it
    (("--topic", "orders"), ("--add-config", "cleanup.policy=[compact,delete]"),
     ("--add-config", "retention.ms=1,segment.bytes=1048576,cleanup.policy=delete", "--delete-config", "flush.ms")),
    (("--broker", "1"), ("--add-config", "log.cleaner.backoff.ms=20000"),
     ("--add-config", "log.cleaner.delete.retention.ms=1000", "--delete-config", "log.cleaner.backoff.ms")),
    (("--broker-defaults",), (), ("--add-config", "log.retention.ms=86400000")),
    (("--group", "g"), ("--add-config", "consumer.session.timeout.ms=50000"),
     ("--add-config", "consumer.session.timeout.ms=55000")),
    (("--client-metrics", "sub"), ("--add-config", "interval.ms=5000,match=[client_id=a.*,client_software_name=b]"),
     ("--add-config", "metrics=org.apache.kafka", "--delete-config", "match")),
    (("--user", "alice", "--client-defaults"), ("--add-config", "producer_byte_rate=1048576,request_percentage=12.5"),
     ("--add-config", "consumer_byte_rate=7", "--delete-config", "request_percentage")),
    (("--user-defaults",), (), ("--add-config", "producer_byte_rate=5")),
    (("--ip", "127.0.0.1"), ("--add-config", "connection_creation_rate=10"),
     ("--delete-config", "connection_creation_rate")),
)  # fmt: skip


def _state(kt: Kt) -> list[str]:
    return [kt("--describe", *entity, "--json").out for entity, _, _ in _ENTITIES]


@pytest.mark.slow
def test_every_kind_of_entity_is_brought_back(kt: Kt, tmp_path: pathlib.Path) -> None:
    for entity, before, _ in _ENTITIES:
        if before:
            kt("--alter", *entity, *before)
    noted = _state(kt)
    for number, (entity, _, change) in enumerate(_ENTITIES):
        kt("--alter", *entity, *change, "--undo-file", f"{number}.jsonl")
    changed = _state(kt)
    assert all(one != other for one, other in zip(noted, changed, strict=True))

    lines = [(tmp_path / f"{number}.jsonl").read_text() for number in range(len(_ENTITIES))]
    assert json.loads(lines[0]) == {
        "entity": {"topic": "orders"},
        "set": {"cleanup.policy": "compact,delete", "retention.ms": "60000"},
        "delete": ["segment.bytes"],
    }
    assert json.loads(lines[5]) == {
        "entity": {"user": "alice", "client-id": None},
        "set": {"request_percentage": 12.5},
        "delete": ["consumer_byte_rate"],
    }
    (tmp_path / "all.jsonl").write_text("".join(lines))

    shown = kt("--from-file", "all.jsonl", "--dry-run").out.splitlines()
    assert "topic orders: retention.ms: 1 -> 60000" in shown
    assert "topic orders: segment.bytes: 1048576 -> (not set)" in shown
    assert "default of brokers: log.retention.ms: 86400000 -> (not set)" in shown
    assert "user-principal 'alice', the default client-id: request_percentage: (not set) -> 12.5" in shown
    assert _state(kt) == changed

    back = kt("--from-file", "all.jsonl", "--undo-file", "again.jsonl").out.splitlines()
    assert "Completed updating config for topic orders." in back
    assert back[-1] == "13 to change, 0 already as requested"
    assert _state(kt) == noted
    assert kt("--from-file", "all.jsonl").out == "0 to change, 13 already as requested\n"
    kt("--from-file", "again.jsonl")
    assert _state(kt) == changed


@pytest.mark.slow
def test_only_real_differences_are_shown_and_nothing_is_written_in_vain(kt: Kt, tmp_path: pathlib.Path) -> None:
    topic = ("--alter", "--topic", "orders")
    same = ("--add-config", "retention.ms=60000", "--delete-config", "flush.ms,no.such")
    nothing = kt(*topic, *same, "--dry-run")
    assert (nothing.out, nothing.err) == ("", "Nothing would change.\n")
    row = json.loads(kt(*topic, "--add-config", "retention.ms=60000,flush.ms=9", "--dry-run", "--json").out)
    assert row == {
        "entity": {"topic": "orders"},
        "altered": False,
        "changes": [{"name": "flush.ms", "old": None, "new": "9", "sensitive": False}],
        "error": None,
    }

    # What the broker refuses is refused in a dry run too, and leaves no undo file behind.
    for option in (("--dry-run",), ("--undo-file", "u.jsonl")):
        refused = kt(*topic, "--add-config", "retention.ms=soon", *option, status=ExitStatus.FAILED)
        assert "Invalid value soon for configuration retention.ms" in refused.err and refused.out == ""
    assert not (tmp_path / "u.jsonl").exists()
    (tmp_path / "there.jsonl").touch()
    in_the_way = kt(*topic, "--add-config", "flush.ms=9", "--undo-file", "there.jsonl", status=ExitStatus.FAILED)
    assert "The undo file there.jsonl cannot be written, so nothing was changed: File exists" in in_the_way.err
    assert "flush.ms" not in kt("--describe", "--topic", "orders").out

    # A setting that is not set: Kafka's tool takes it for a resource, and refuses it for a quota.
    assert kt(*topic, "--delete-config", "flush.ms").out == "Completed updating config for topic orders.\n"
    quota = ("--alter", "--client", "app", "--delete-config", "request_percentage", "--dry-run")
    assert kt(*quota, status=ExitStatus.FAILED).err == "Invalid config(s): request_percentage\n"


@pytest.mark.slow
def test_passwords_and_loggers(kt: Kt, tmp_path: pathlib.Path) -> None:
    secret = "listener.name.internal.ssl.keystore.password"
    broker = ("--alter", "--broker", "1", "--add-config", f"{secret}=s3cret")
    assert kt(*broker, "--dry-run").out == f"broker 1: {secret}: (not set) -> (hidden)\n"
    kt(*broker, "--undo-file", "new.jsonl")
    assert json.loads((tmp_path / "new.jsonl").read_text())["delete"] == [secret]
    refused = kt(*broker, "--undo-file", "lost.jsonl", status=ExitStatus.FAILED)
    assert (
        f"Nothing was changed: {secret} of broker 1 is sensitive, so its present value cannot be saved in "
        "the undo file" in refused.err
    )
    assert not (tmp_path / "lost.jsonl").exists()
    kt("--from-file", "new.jsonl")
    assert secret not in kt("--describe", "--broker", "1").out

    user = ("--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=s3cret]")
    scram = kt(*user, "--undo-file", "u.jsonl", status=ExitStatus.USAGE)
    assert scram.err.startswith("--undo-file cannot save SCRAM credentials, ")
    assert kt(*user, "--dry-run").out == "user-principal 'alice': SCRAM-SHA-256: (not set) -> iterations=8192\n"
    assert kt("--describe", "--user", "alice").out == ""
    kt(*user)
    assert kt(*user, "--dry-run").out == "user-principal 'alice': SCRAM-SHA-256: iterations=8192 -> iterations=8192\n"

    level = kt("--describe", "--broker-logger", "1").out
    kt("--alter", "--broker-logger", "1", "--add-config", "root=TRACE", "--undo-file", "log.jsonl")
    kt("--from-file", "log.jsonl")
    assert kt("--describe", "--broker-logger", "1").out == level


@pytest.mark.slow
def test_what_fails_of_a_file_is_named_and_the_rest_is_done(kt: Kt, tmp_path: pathlib.Path) -> None:
    rows = [
        {"entity": {"topic": "ghost"}, "set": {"flush.ms": "1"}, "delete": []},
        {"entity": {"broker": "9"}, "set": {}, "delete": ["log.retention.ms"]},
        {"entity": {"topic": "orders"}, "set": {"flush.ms": "1"}, "delete": []},
    ]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dry = kt("--from-file", "some.jsonl", "--dry-run", status=ExitStatus.FAILED)
    assert dry.out == "topic orders: flush.ms: (not set) -> 1\n"
    done = kt("--from-file", "some.jsonl", "--json", status=ExitStatus.FAILED)
    found = {next(iter(row["entity"].values())): row for row in map(json.loads, done.out.splitlines())}
    assert found["orders"]["altered"] and found["orders"]["error"] is None
    assert not found["ghost"]["altered"] and "does not host" in found["ghost"]["error"]
    assert found["9"]["error"] == "There is no broker 9: the brokers are 1"
    assert "flush.ms=1 " in kt("--describe", "--topic", "orders").out


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"entity": {"topic"', "line 1, column 20: Expecting ':' delimiter"),
        ("\n[]", "line 2: the line is not a JSON object"),
        ('{"entity": {"topic": "t"}}', "line 1: the JSON object lacks the keys set, delete"),
        ('{"entity": {"topic": "a b"}, "set": {}, "delete": []}', "line 1: Topic name is invalid: 'a b' contains"),
        (
            '{"entity": {"topic": null}, "set": {}, "delete": []}',
            "line 1: the name of the topic must be a string that is not empty",
        ),
        ('{"entity": {"topic": "t", "user": "u"}, "set": {}, "delete": []}', "line 1: only user and client-id"),
        ('{"entity": {"topic": "t"}, "set": {"flush.ms": 1}, "delete": []}', "line 1: the value of flush.ms must be"),
        ('{"entity": {"user": "u"}, "set": {"SCRAM-SHA-256": "x"}, "delete": []}', "line 1: SCRAM-SHA-256 is not a"),
        ('{"entity": {"ip": null}, "set": {"connection_creation_rate": true}, "delete": []}', "line 1: the value of c"),
        ('{"entity": {"topic": "t"}, "set": {"a": "1"}, "delete": ["a"]}', 'line 1: a is in both "set" and "delete"'),
        ('{"entity": {"group": "g"}, "set": {}, "delete": []}\n' * 2, "line 2: group g is already in an earlier line"),
        ('{"entity": {"broker": "one"}, "set": {}, "delete": []}', "line 1: the name of a broker must be its id"),
        ('{"entity": {"user": "u"}, "set": {"producer_byte_rate": NaN}, "delete": []}', "line 1: the value of produ"),
    ],
)  # fmt: skip
def test_mistakes_of_a_file_are_named_with_their_line(tmp_path: pathlib.Path, text: str, complaint: str) -> None:
    (tmp_path / "f.jsonl").write_text(text)
    ran = run_kt("configs", *_NOWHERE, "--from-file", "f.jsonl", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert ran.err.startswith(f"f.jsonl, {complaint}")


@pytest.mark.slow
def test_a_name_may_hold_what_other_programs_take_for_the_end_of_a_line(kt: Kt) -> None:
    user = ("--user", "a\u2028b\x85c")
    kt("--alter", *user, "--add-config", "producer_byte_rate=5", "--undo-file", "u.jsonl")
    assert kt("--from-file", "u.jsonl").out.endswith("1 to change, 0 already as requested\n")
    assert kt("--describe", *user).out == ""


def test_brokers_that_cannot_be_reached_are_no_fault_of_an_entity(tmp_path: pathlib.Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"entity": {"topic": "t"}, "set": {}, "delete": []}\n')
    ran = run_kt("configs", *_NOWHERE, "--from-file", "f.jsonl", cwd=tmp_path)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.startswith("Connection to 127.0.0.1:9 failed")


@pytest.mark.parametrize(
    "words",
    [
        "--describe --topic t --dry-run",
        "--describe --topic t --undo-file u",
        "--alter --topic t --delete-config a --dry-run --undo-file u",
        "--from-file f --topic t",
        "--from-file f --alter --topic t",
    ],
)
def test_combinations_that_mean_nothing_are_refused(words: str) -> None:
    assert run_kt("configs", *_NOWHERE, *words.split()).status == ExitStatus.USAGE
