"""kt apply against the embedded broker: plans, what is made of them, mistakes in files, pruning, passwords.

What stands in the cluster is read with `kt topics`, `kt configs` and `kt acls`, which others test against Kafka.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools import EmbeddedBroker
from kafkatools.commands.apply import changes
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.declared.carry_out import DONE, Outcome

NOWHERE = ("--bootstrap-server", "127.0.0.1:9")
PASSWORD = "wonder land 7"
Kt = Callable[..., Ran]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    with embedded_broker(tmp_path_factory.mktemp("broker"), **settings) as address:
        yield address


@pytest.fixture
def kt(broker: str, tmp_path: pathlib.Path) -> Iterator[Kt]:
    def run(command: str, *words: str, status: ExitStatus = ExitStatus.OK, stdin: bytes = b"") -> Ran:
        environ = {"ALICE_PASSWORD": PASSWORD}
        ran = run_kt(command, "--bootstrap-server", broker, *words, cwd=tmp_path, environ=environ, stdin=stdin)
        assert ran.status == status, (words, ran.out, ran.err)
        return ran

    yield run
    (tmp_path / "nothing.toml").write_text("acls = []\nquotas = []\n[topics]\n[users]\n")
    run("apply", "nothing.toml", "--prune", "--yes")


def write(directory: pathlib.Path, text: str, name: str = "state.toml") -> str:
    (directory / name).write_text(text, encoding="utf-8")
    return name


def rows(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


STATE = """
acls = [{principal = ["User:alice", "User:bob"], topic = "orders", operations = ["Read", "Describe"]}]
quotas = [{user = "alice", producer_byte_rate = "1MiB"}, {client-defaults = true, request_percentage = 12.5}]
[topics.orders]
partitions = 3
configs."retention.ms" = "7d"
[users.alice.SCRAM-SHA-256]
password-env = "ALICE_PASSWORD"
iterations = 8192
"""


def test_a_plan_is_made_once_and_then_empty(kt: Kt, tmp_path: pathlib.Path) -> None:
    state = write(tmp_path, STATE)
    plan = kt("apply", state, "--dry-run").out
    assert plan.splitlines() == [
        "+ user alice SCRAM-SHA-256: iterations=8192",
        "+ topic orders: partitions=3, retention.ms=604800000",
        "+ acl User:alice ALLOW READ topic orders (literal) from *",
        "+ acl User:alice ALLOW DESCRIBE topic orders (literal) from *",
        "+ acl User:bob ALLOW READ topic orders (literal) from *",
        "+ acl User:bob ALLOW DESCRIBE topic orders (literal) from *",
        "+ quotas of user-principal 'alice': producer_byte_rate=1048576",
        "+ quotas of the default client-id: request_percentage=12.5",
        "Plan: 8 to create, 0 to change, 0 to delete.",
    ]
    assert kt("topics", "--list").out == ""
    assert kt("apply", state, "--check", status=ExitStatus.FINDINGS).out == plan
    assert kt("apply", state).out == plan + "Applied: 8 created, 0 changed, 0 deleted.\n"
    for words in ((), ("--check",), ("--dry-run",), ("--prune", "--check")):
        assert kt("apply", state, *words).out == "Nothing to change: the cluster is as declared.\n"

    (topic,) = rows(kt("topics", "--describe", "--topic", "orders", "--json"))
    assert topic["partition_count"] == 3
    (configs,) = rows(kt("configs", "--describe", "--topic", "orders", "--json"))
    assert {config["name"]: config["value"] for config in configs["configs"]} == {"retention.ms": "604800000"}
    assert {(acl["principal"], acl["operation"]) for acl in rows(kt("acls", "--list", "--json"))} == {
        ("User:alice", "READ"), ("User:alice", "DESCRIBE"), ("User:bob", "READ"), ("User:bob", "DESCRIBE"),
    }  # fmt: skip
    users = rows(kt("configs", "--describe", "--entity-type", "users", "--json"))
    assert {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 1048576}} in users
    assert {"entity": {"user": "alice"}, "scram": {"SCRAM-SHA-256": {"iterations": 8192}}} in users


def _change(kt: Kt, directory: pathlib.Path, before: str, after: str) -> dict[str, Any]:
    """The only change of a plan from one file to another."""
    kt("apply", write(directory, before, "before.toml"), "--yes")
    (row,) = [json.loads(line) for line in _planned(kt, write(directory, after, "after.toml")).out.splitlines()]
    return dict(row)


def _planned(kt: Kt, *words: str) -> Ran:
    return kt("apply", *words, "--check", "--json", status=ExitStatus.FINDINGS)


def _topic(configs: str, partitions: int = 2) -> str:
    return f"[topics.t]\npartitions = {partitions}\n[topics.t.configs]\n{configs}\n"


@pytest.mark.parametrize(
    ("before", "after", "dangers"),
    [
        ("retention.ms = 1000", "retention.ms = 2000", []),
        ("retention.ms = 2000", "retention.ms = 1000", ["retention.ms: older records will be deleted"]),
        ("retention.ms = -1", "retention.ms = 1000", ["retention.ms: older records will be deleted"]),
        ("retention.ms = 1000", "retention.ms = -1", []),
        ("", "retention.ms = '8d'", []),  # the default is 7 days
        ("", "retention.ms = '6d'", ["retention.ms: older records will be deleted"]),
        ("cleanup.policy = 'compact'\nretention.ms = 2000", "cleanup.policy = 'compact'\nretention.ms = 1000", []),
        ("", "retention.bytes = '1GiB'",
         ["retention.bytes: the oldest records above this size of a partition will be deleted"]),
        ("", "cleanup.policy = 'compact'", ["cleanup.policy: only the newest record of each key will be kept"]),
        ("cleanup.policy = 'compact'", "cleanup.policy = ['compact', 'delete']",
         ["cleanup.policy: records beyond retention.ms and retention.bytes will be deleted"]),
        ("", "min.insync.replicas = 2",
         ["min.insync.replicas 2 is above 1 replicas: producers with acks=all will be refused"]),
        ("", "unclean.leader.election.enable = true",
         ["unclean.leader.election.enable: the election of a replica that is out of sync loses records"]),
        ("", "max.message.bytes = '2MiB'", []),
    ],
)  # fmt: skip
def test_dangerous_settings_are_marked(
    kt: Kt, tmp_path: pathlib.Path, before: str, after: str, dangers: Sequence[str]
) -> None:
    change = _change(kt, tmp_path, _topic(before), _topic(after))
    assert (change["action"], change["dangers"]) == ("change", list(dangers))


def test_more_partitions_are_dangerous_and_fewer_impossible(kt: Kt, tmp_path: pathlib.Path) -> None:
    change = _change(kt, tmp_path, _topic("", 2), _topic("", 5))
    assert change["changes"] == [{"name": "partitions", "old": 2, "new": 5}] and change["dangers"]
    refused = kt("apply", "after.toml", status=ExitStatus.FAILED)  # stdin is empty
    assert refused.err.splitlines()[0] == "Nothing was changed: stdin ended before an answer."
    assert kt("apply", "after.toml", stdin=b"n\n", status=ExitStatus.FAILED).err == "Nothing was changed.\n"
    assert kt("apply", "after.toml", stdin=b"y\n").out.endswith("Applied: 0 created, 1 changed, 0 deleted.\n")
    fewer = kt("apply", "before.toml", status=ExitStatus.FAILED).out
    assert fewer.splitlines() == [
        "! topic t: partitions: 5 -> 2",
        "    cannot be made: Kafka cannot take partitions away",
        "    instead: kt copy t NEW-TOPIC, into a topic with 2 partitions",
        "Plan: 0 to create, 0 to change, 0 to delete; 1 cannot be made.",
        "Applied: 0 created, 0 changed, 0 deleted; 1 cannot be made.",
    ]


def test_another_replication_factor_names_the_command(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, "[topics.'a.b']\nreplication = 1"))
    ran = kt("apply", write(tmp_path, "[topics.'a.b']\nreplication = 3"), "--dry-run", status=ExitStatus.FAILED)
    assert ran.out.splitlines()[:3] == [
        "! topic a.b: replication: 1 -> 3",
        "    cannot be made: replicas are moved by a reassignment",
        r"    instead: kt reassign-partitions plan set-rf --replication-factor 3 --topics 'a\.b' --out plan.json && "
        "kt reassign-partitions run --reassignment-json-file plan.json",
    ]


def test_without_a_list_of_reassignments_replication_is_not_compared(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hasty.properties").write_text("default.api.timeout.ms=500\nrequest.timeout.ms=400\n")
    three = write(tmp_path, "topics.orders = {partitions = 1, replication = 3}")
    with EmbeddedBroker() as broker:

        def kt(*words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
            hasty = ("--command-config", "hasty.properties")
            ran = run_kt(words[0], "--bootstrap-server", broker.bootstrap, *words[1:], *hasty, cwd=tmp_path)
            assert ran.status == status, (words, ran.out, ran.err)
            return ran

        kt("topics", "--create", "--topic", "orders")
        with broker.faults.add("error", api="ListPartitionReassignments", error="REQUEST_TIMED_OUT"):
            reason = "no broker listed the reassignments in progress in time"
            assert kt("apply", three, "--check").err == f"warning: replication is not compared: {reason}\n"
            shown = kt("apply", "--from-cluster")
            assert f"The file has no replication: {reason}.\n" in shown.err
            assert "partitions = 1" in shown.out and "replication" not in shown.out
            deletion = kt("apply", write(tmp_path, "[topics]", "none.toml"), "--prune", "--dry-run").out
            assert "- topic orders" in deletion and "replication" not in deletion
        kt("apply", three, "--check", status=ExitStatus.FINDINGS)


def test_a_file_without_content_is_a_warning(kt: Kt, tmp_path: pathlib.Path) -> None:
    ran = kt("apply", write(tmp_path, ""), "--check")
    assert (ran.out, ran.err) == (
        "Nothing to change: the cluster is as declared.\n", "warning: the files declare nothing\n",
    )  # fmt: skip


def test_what_the_broker_refuses_does_not_stop_the_others(kt: Kt, tmp_path: pathlib.Path) -> None:
    state = write(tmp_path, "topics = {a = {replication = 1}, b = {replication = 7}, c = {partitions = 1}}")
    ran = kt("apply", state, status=ExitStatus.FAILED)
    assert (
        "! topic b: replication: (not set) -> 7\n    cannot be made: Unable to replicate the partition 7 time(s)"
        in ran.out
    )
    assert ran.out.splitlines()[-1] == "Applied: 2 created, 0 changed, 0 deleted; 1 cannot be made."
    assert kt("topics", "--list").out == "a\nc\n"
    write(tmp_path, "topics = {a = {replication = 1}, b = {replication = 1}, c = {partitions = 1}}")
    assert kt("apply", state).out.splitlines()[-1] == "Applied: 1 created, 0 changed, 0 deleted."


def test_only_overrides_and_other_values_are_differences(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("topics", "--create", "--topic", "t", "--partitions", "2", "--config", "cleanup.policy=delete,compact",
       "--config", "min.cleanable.dirty.ratio=0.50", "--config", "preallocate=TRUE")  # fmt: skip
    same = _topic("cleanup.policy=['compact', 'delete']\nmin.cleanable.dirty.ratio=0.5\npreallocate=true")
    kt("apply", write(tmp_path, same), "--check")
    default = _planned(kt, write(tmp_path, _topic("retention.ms = '7d'")))  # the default, but no override
    assert rows(default)[0]["changes"] == [{"name": "retention.ms", "old": None, "new": "604800000"}]


# -- pruning --


def test_nothing_undeclared_is_deleted_without_prune(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, STATE))
    less = write(tmp_path, "[topics.more]\n[topics.orders]\n", "less.toml")
    ran = kt("apply", less)
    kept = "Not declared and kept: 1 topic with other overrides. --prune deletes what no file declares.\n"
    assert (ran.out.splitlines()[0], ran.err) == ("+ topic more", kept)
    kt("apply", write(tmp_path, "[topics.more]\n", "less.toml"), "--check")

    planned = rows(_planned(kt, "less.toml", "--prune"))
    assert [(row["kind"], row["target"], row["action"]) for row in planned] == [
        ("topic", {"topic": "orders"}, "delete")
    ]
    assert planned[0]["dangers"] == ["all its records are deleted"]
    assert kt("apply", "less.toml", "--prune", stdin=b"n\n", status=ExitStatus.FAILED).err.endswith(
        "Nothing was changed.\n"
    )
    kt("apply", "less.toml", "--prune", "configs,acls", "--check")
    kt("apply", "less.toml", "--prune", "topics", "--yes")
    assert kt("topics", "--list").out == "more\n"
    assert len(rows(kt("acls", "--list", "--json"))) == 4  # of a kind that the file does not have


def test_prune_deletes_each_kind_that_is_declared(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, STATE))
    kt("topics", "--create", "--topic", "__kept")
    empty = "acls = []\nquotas = []\nusers = {}\n[topics.orders]\n"
    ran = kt("apply", write(tmp_path, empty), "--prune", "--yes", "--json")
    assert [(row["kind"], row["action"], row["outcome"]) for row in rows(ran)] == [
        ("topic", "change", "done"),
        *[("acl", "delete", "done")] * 4,
        *[("quotas", "delete", "done")] * 2,
        ("user", "delete", "done"),
    ]
    assert kt("topics", "--list").out == "__kept\norders\n"
    assert kt("configs", "--describe", "--entity-type", "users").out == ""
    assert rows(kt("configs", "--describe", "--topic", "orders", "--json"))[0]["configs"] == []
    kt("topics", "--delete", "--topic", "__kept")


def test_a_failure_is_named_with_the_error_of_the_broker(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker", delete_topic_enable="false") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        assert run_kt("apply", *server, write(tmp_path, "[topics.a]\n[topics.b]"), cwd=tmp_path).status == ExitStatus.OK
        more = write(tmp_path, "quotas = [{user = 'u', producer_byte_rate = 1}]\n[topics.b]")
        ran = run_kt("apply", *server, more, "--prune", "--yes", cwd=tmp_path)
        assert ran.status == ExitStatus.FAILED
        assert ran.err == "topic a: delete failed: Topic deletion is disabled.\n"
        assert ran.out.splitlines()[-1] == "Applied: 1 created, 0 changed, 0 deleted; 1 failed."


# -- passwords --


def test_a_credential_that_exists_changes_only_when_asked(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, STATE))
    more = write(tmp_path, STATE.replace("8192", "9000"))
    ran = kt("apply", more, status=ExitStatus.FAILED)
    assert ran.out.splitlines()[0] == "! user alice SCRAM-SHA-256: iterations: 8192 -> 9000"
    outputs = [ran, kt("apply", more, "--update-passwords", "--yes"), kt("apply", more)]
    again = kt("apply", more, "--update-passwords", "--dry-run")
    assert again.out.splitlines()[0] == "~ user alice SCRAM-SHA-256: a new password"
    outputs.append(kt("apply", more, "--update-passwords", "--yes", "--json"))
    assert rows(outputs[-1])[0]["changes"] == [
        {"name": "iterations", "old": 9000, "new": 9000},
        {"name": "password", "old": None, "new": None},
    ]
    assert not any(PASSWORD in ran.out + ran.err for ran in outputs)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("", "does not exist and has no password"),
        ("password-env = 'NOT_SET_HERE'", "the environment variable NOT_SET_HERE is not set"),
        ("password-file = 'nowhere'", "nowhere: No such file or directory"),
        ("password-file = 'empty'", "empty has no password in its first line"),
    ],
)
def test_a_missing_password_is_found_before_a_change(kt: Kt, tmp_path: pathlib.Path, keys: str, problem: str) -> None:
    write(tmp_path, "\n", "empty")
    ran = kt("apply", write(tmp_path, f"[topics.t]\n[users.u.SCRAM-SHA-512]\n{keys}"), status=ExitStatus.USAGE)
    start = "state.toml, users.u.SCRAM-SHA-512: user u"
    assert ran.err.splitlines()[0] in (f"{start} {problem}", f"{start}: {problem}")
    assert kt("topics", "--list").out == ""


def test_a_password_file_is_beside_the_file_that_names_it(kt: Kt, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path, f"{PASSWORD}\nsecond line", "sub/secret")
    kt("apply", write(tmp_path, "[users.u]\nSCRAM-SHA-512.password-file = 'secret'", "sub/users.toml"))
    assert "SCRAM-SHA-512=iterations=4096" in kt("configs", "--describe", "--user", "u").out


def test_a_password_that_all_can_read_is_a_warning(kt: Kt, tmp_path: pathlib.Path) -> None:
    write(tmp_path, PASSWORD, "secret")
    state = write(tmp_path, "[users.u]\nSCRAM-SHA-512.password-file = 'secret'")
    for mode, count in ((0o644, 1), (0o600, 0)):
        (tmp_path / "secret").chmod(mode)
        assert kt("apply", state, "--dry-run").err.count("every user of this machine can read") == count


def test_a_principal_of_no_known_type_is_a_warning(kt: Kt, tmp_path: pathlib.Path) -> None:
    acls = "acls = [{principal = 'user:alice', topic = 't', operations = ['Read', 'Write']}]"
    ran = kt("apply", write(tmp_path, acls), "--dry-run")
    assert ran.err.startswith("warning: ") and ran.err.endswith("Did you mean User:alice?\n")


# -- undo files --


def test_changes_are_taken_back_and_made_again(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, STATE))
    before = kt("apply", "--from-cluster").out
    more = STATE.replace('"7d"', '"8d"').replace("12.5", "13").replace(', "User:bob"', "").replace("1MiB", "2MiB")
    more += "[users.bob.SCRAM-SHA-512]\npassword-env = 'ALICE_PASSWORD'\n"
    more += "[topics.new.configs]\n'segment.ms' = 5000\n"
    words = (write(tmp_path, more), "--prune", "--yes")
    kt("apply", *words, "--undo-file", "undo.jsonl")
    after = kt("apply", "--from-cluster").out
    assert after != before
    lines = [json.loads(line) for line in (tmp_path / "undo.jsonl").read_text().splitlines()]
    assert {"kind": "topic", "target": {"topic": "orders"}, "set": {"retention.ms": "604800000"}, "delete": []} in lines
    assert {"kind": "topic", "target": {"topic": "new"}, "exists": False} in lines

    kt("apply", *words, "--undo-file", "undo.jsonl")  # nothing to change: the file stays as it is
    kt("apply", "--undo", "undo.jsonl", "--check", status=ExitStatus.FINDINGS)
    assert kt("apply", "--undo", "undo.jsonl", stdin=b"n\n", status=ExitStatus.FAILED).err == "Nothing was changed.\n"
    kt("apply", "--undo", "undo.jsonl", "--yes")
    assert kt("apply", "--from-cluster").out == before
    assert kt("apply", "--undo", "undo.jsonl").out == "Nothing to change: the cluster is as before the changes.\n"


def test_what_cannot_be_undone_is_refused_with_an_undo_file(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("apply", write(tmp_path, STATE))
    for name, text, reason in (
        ("partitions", STATE.replace("partitions = 3", "partitions = 4"), "partitions cannot be removed"),
        ("topics", "[topics.more]", "its records cannot be restored"),
        ("users", "users = {}", "its password cannot be restored"),
    ):
        words = (write(tmp_path, text), "--prune", name if name != "partitions" else "acls", "--yes")
        ran = kt("apply", *words, "--undo-file", "undo.jsonl", status=ExitStatus.FAILED)
        assert reason in ran.err and "Nothing was changed" in ran.err
    assert not (tmp_path / "undo.jsonl").exists()
    kt("apply", write(tmp_path, STATE), "--check")


def test_an_undo_file_is_never_written_over(kt: Kt, tmp_path: pathlib.Path) -> None:
    write(tmp_path, "mine", "undo.jsonl")
    ran = kt("apply", write(tmp_path, "[topics.t]"), "--undo-file", "undo.jsonl", status=ExitStatus.FAILED)
    assert "The undo file undo.jsonl cannot be written, so nothing was changed" in ran.err
    assert (kt("topics", "--list").out, (tmp_path / "undo.jsonl").read_text()) == ("", "mine")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "Expecting property name"),
        ("[]", "not a change that kt apply"),
        ('{"kind": [], "target": {}}', "not a change that kt apply"),
        ('{"kind": "topic", "target": {"topic": "t"}, "set": {}, "delete": [[]]}', "delete must be a list of names"),
        ('{"kind": "topic", "target": {"topic": 1}, "exists": true}', "the target needs the texts topic"),
        ('{"kind": "topic", "target": {"topic": "t"}}', 'the line needs "exists"'),
        (
            '{"kind": "topic", "target": {"topic": "t"}, "set": {"a": 1}, "delete":[]}',
            "the value of a must be a string",
        ),
        (
            '{"kind": "topic", "target": {"topic": "t"}, "set": {"a": "1"}, "delete": ["a"]}',
            'a is in both "set" and "delete"',
        ),
        ('{"kind": "quotas", "target": {}, "set": {}, "delete": []}', "the target of quotas needs"),
    ],
)
def test_a_mistake_in_an_undo_file_names_the_line(tmp_path: pathlib.Path, line: str, problem: str) -> None:
    write(tmp_path, f"\n{line}\n", "undo.jsonl")
    ran = run_kt("apply", *NOWHERE, "--undo", "undo.jsonl", cwd=tmp_path)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.startswith("undo.jsonl, line 2") and problem in ran.err


_QUOTAS = '{"kind": "quotas", "target": {"user": "ada"}'
_TOPIC = '{"kind": "topic", "target": {"topic": "t"}'


@pytest.mark.parametrize(
    ("earlier", "later", "label"),
    [
        (
            f'{_QUOTAS}, "set": {{"producer_byte_rate": 1}}, "delete": []}}',
            f'{_QUOTAS}, "set": {{}}, "delete": ["producer_byte_rate"]}}',
            "quotas of user-principal 'ada'",
        ),
        (f'{_TOPIC}, "exists": false}}', f'{_TOPIC}, "set": {{"retention.ms": "1"}}, "delete": []}}', "topic t"),
    ],
    ids=["values", "existence"],
)
def test_contrary_lines_in_an_undo_file_are_refused(
    tmp_path: pathlib.Path, earlier: str, later: str, label: str
) -> None:
    write(tmp_path, f"{earlier}\n{earlier}\n{later}\n", "undo.jsonl")
    ran = run_kt("apply", *NOWHERE, "--undo", "undo.jsonl", cwd=tmp_path)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.startswith(f"undo.jsonl, line 3: an earlier line restores another state of {label};")


def test_lines_about_different_values_of_a_topic_are_taken_back_together(kt: Kt, tmp_path: pathlib.Path) -> None:
    kt("topics", "--create", "--topic", "t", "--config", "retention.ms=1", "--config", "segment.ms=2")
    lines = (f'{_TOPIC}, "set": {{}}, "delete": ["{name}"]}}\n' for name in ("retention.ms", "segment.ms"))
    write(tmp_path, "".join(lines), "undo.jsonl")
    kt("apply", "--undo", "undo.jsonl", "--yes")
    kt("apply", "--undo", "undo.jsonl", "--check")


# -- mistakes --


def _mistake(directory: pathlib.Path, *files: str) -> list[str]:
    """The lines on stderr for files with a mistake, which is found without a broker."""
    ran = run_kt("apply", *NOWHERE, *files, cwd=directory)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, ""), ran.err
    return ran.err.splitlines()


_ACL_OF_ALICE = "[[acls]]\nprincipal = 'User:alice'\n"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("topics = 1", "topics: must be a table of keys, not 1", ""),
        ("[topic.t]", "topic: unknown key 'topic'", "Did you mean topics?"),
        ("[topics.t]\npartition = 1", "topics.t.partition: unknown key 'partition'", "Did you mean partitions?"),
        ("[topics.t]\npartitions = 'six'", "topics.t.partitions: must be a whole number, not 'six'", ""),
        ("[topics.t]\npartitions = true", "topics.t.partitions: must be a whole number, not true", ""),
        ("[topics.t]\npartitions = 0", "topics.t.partitions: must be from 1 to 2147483647, not 0", ""),
        (
            "[topics.a.b]\npartitions = 1",
            "topics.a.b: unknown key 'b'",
            'TOML needs quotes around a name with dots: [topics."a.b"].',
        ),
        ("[topics.'a b']", "topics.\"a b\": 'a b' is not a valid topic name", "A name has up to 249 letters"),
        (
            "[topics.t.configs]\nretention.ms = '7 days'",
            "topics.t.configs.retention.ms: Invalid value 7 days",
            "Write a number with ms",
        ),
        ("[topics.t.configs]\ncleanup.policy = 'compct'", "topics.t.configs.cleanup.policy: Invalid value compct", ""),
        ("[[acls]]\ntopic = 't'\noperations = 'Read'", "acls[0]: an ACL needs a principal, such as User:alice", ""),
        ("[[acls]]\nprincipal = 'alice'\ntopic = 't'\noperations = 'Read'", "acls[0].principal: must be TYPE:NAME", ""),
        (
            "[[acls]]\nprincipal = 'User:a'\ntopic = 't'\noperations = 'Raed'",
            "acls[0].operations: 'Raed' is not an operation on a topic",
            "Did you mean Read?",
        ),
        (
            "[[acls]]\nprincipal = 'User:a'\noperations = 'Read'",
            "acls[0]: an ACL needs one resource, and this one has 0",
            "",
        ),
        (
            "[[acls]]\nprincipal = 'User:a'\ntopic = 't'\ngroup = 'g'\noperations = 'Read'",
            "acls[0]: an ACL needs one resource, and this one has 2",
            "",
        ),
        (
            "[[acls]]\nprincipal = 'User:a'\ntopic = 't'\noperations = ['Read', 'READ']",
            "acls[0]: READ of User:a on topic t is already declared in state.toml, acls[0]",
            "",
        ),
        ("[[quotas]]\nproducer_byte_rate = 1", "quotas[0]: quotas need an entity", "Entities are user"),
        ("[[quotas]]\nuser = 'a'", "quotas[0]: has no quota", "Quotas are producer_byte_rate"),
        (
            "[[quotas]]\nip = '::1'\nproducer_byte_rate = 1",
            "quotas[0].producer_byte_rate: this entity has no quota",
            "Its quotas are connection_creation_rate.",
        ),
        (
            "[[quotas]]\nuser = 'a'\nproducer_byte_rate = 'fast'",
            "quotas[0].producer_byte_rate: must be a number, not 'fast'",
            "",
        ),
        ("[users.u]\nSCRAM-SHA-1 = {}", "users.u.SCRAM-SHA-1: unknown key 'SCRAM-SHA-1'", "Did you mean SCRAM-SHA-"),
        (
            "[users.u]\nSCRAM-SHA-256 = {password = 'x'}",
            "users.u.SCRAM-SHA-256.password: a password does not belong",
            "Name its variable",
        ),
        (f"{_ACL_OF_ALICE}operations = 'Read'\ntopic = ''", "acls[0].topic: must not be empty", ""),
        (f"{_ACL_OF_ALICE}operations = []\ntopic = 't'", "acls[0].operations: must not be empty", ""),
        (f"{_ACL_OF_ALICE}topic = 't'", "acls[0]: an ACL needs operations, such as [Read, Describe]", ""),
        (f"{_ACL_OF_ALICE}operations = 'Alter'\ncluster = 'c'", "acls[0].cluster: must be true", ""),
        (
            f"{_ACL_OF_ALICE}operations = 'Alter'\ncluster = true\npattern = 'prefixed'",
            "acls[0].pattern: the pattern of the cluster must be literal",
            "",
        ),
        (
            f"{_ACL_OF_ALICE}operations = 'Read'\ntopic = 't'\npermission = 'maybe'",
            "acls[0].permission: must be allow or deny, not 'maybe'",
            "",
        ),
        (
            "[[quotas]]\nuser = 'a'\nuser-defaults = true\nproducer_byte_rate = 1",
            "quotas[0].user-defaults: user is given",
            "",
        ),
        ("[[quotas]]\nuser-defaults = 'a'\nproducer_byte_rate = 1", "quotas[0].user-defaults: must be true", ""),
        (
            "[[quotas]]\nuser = 'a'\nip = '::1'\nconnection_creation_rate = 1",
            "quotas[0]: ip cannot be combined with user or client-id",
            "",
        ),
        (
            "[[quotas]]\nuser = 'a'\nproducer_byte_rate = true",
            "quotas[0].producer_byte_rate: must be a number, not true",
            "",
        ),
        ("[[quotas]]\nuser = 'a'\nproducer_byte_rate = -1", "quotas[0].producer_byte_rate: must not be negative", ""),
        ("[[quotas]]\nuser = 'a'\nproducer_byte_rate = inf", "quotas[0].producer_byte_rate: must ", ""),
        ("[users.'']\nSCRAM-SHA-256 = {}", 'users."": the name of a user must not be empty', ""),
        ("[users.u]", "users.u: user u has no SCRAM mechanism", "Mechanisms are SCRAM-SHA-256, SCRAM-SHA-512."),
        (
            "[users.u]\nSCRAM-SHA-256 = {password-env = 'A', password-file = 'b'}",
            "users.u.SCRAM-SHA-256: has both password-env and password-file; remove one",
            "",
        ),
        (
            "[users.u]\nSCRAM-SHA-256 = {password-file = 'a\\u0000'}".replace("'", '"'),
            "users.u.SCRAM-SHA-256.password-file: a file name must not have a null character",
            "",
        ),
        (
            "[users.u]\nSCRAM-SHA-256 = {iterations = 1}",
            "users.u.SCRAM-SHA-256.iterations: must be from 4096 to 16384, not 1",
            "",
        ),
    ],
)
def test_a_mistake_names_the_keys(tmp_path: pathlib.Path, text: str, message: str, hint: str) -> None:
    first, *rest = _mistake(tmp_path, write(tmp_path, text))
    assert first.startswith(f"state.toml, {message}")
    assert not hint or rest[0].startswith(hint)


def test_mistakes_of_files(tmp_path: pathlib.Path) -> None:
    assert _mistake(tmp_path, "nowhere.toml")[0] == "nowhere.toml: No such file or directory"
    assert _mistake(tmp_path, write(tmp_path, "", "state.json"))[0].startswith("state.json: the name must end in")
    assert _mistake(tmp_path, write(tmp_path, "[topics\n"))[0].startswith(
        "state.toml: Expected ']' at the end of a table"
    )
    assert "(at line 1, column 8)" in _mistake(tmp_path, "state.toml")[0]
    (tmp_path / "bytes.toml").write_bytes(b"a = '\xff'")
    assert _mistake(tmp_path, "bytes.toml")[0] == "bytes.toml is not UTF-8 text: byte 5"
    assert _mistake(tmp_path)[0] == "Missing the files to apply"
    assert _mistake(tmp_path, write(tmp_path, "a = " + "[" * 100_000))[0].startswith("state.toml: ")


def test_two_files_that_declare_the_same_are_both_named(tmp_path: pathlib.Path) -> None:
    one, two = write(tmp_path, STATE, "one.toml"), write(tmp_path, "[topics.orders]", "two.toml")
    expected = "two.toml, topics.orders: topic orders is already declared in one.toml, topics.orders"
    assert _mistake(tmp_path, one, two) == [expected]
    write(tmp_path, "quotas = [{producer_byte_rate = 5, user = 'alice'}]", "two.toml")
    expected = "two.toml, quotas[0]: the quotas of this entity are already declared in one.toml, quotas[0]"
    assert _mistake(tmp_path, one, two) == [expected]
    write(tmp_path, "users.alice.SCRAM-SHA-256 = {}", "two.toml")
    assert _mistake(tmp_path, one, two)[0].startswith(
        "two.toml, users.alice.SCRAM-SHA-256: SCRAM-SHA-256 of user alice is"
    )


def test_an_unknown_setting_is_found_before_a_change(kt: Kt, tmp_path: pathlib.Path) -> None:
    state = write(tmp_path, "[topics.a]\n[topics.t.configs]\n'retention.mss' = 1")
    ran = kt("apply", state, status=ExitStatus.USAGE)
    assert (
        ran.err.splitlines()[0]
        == "state.toml, topics.t.configs.\"retention.mss\": there is no topic config 'retention.mss'"
    )
    assert ran.err.splitlines()[1].startswith("Did you mean retention.ms?")
    assert kt("topics", "--list").out == ""


def test_a_protected_profile_asks_only_before_a_change(kt: Kt, broker: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path, STATE)
    config = f'[profiles.prod]\nbootstrap_servers = "{broker}"\nprotected = true\ncluster = "prod"\n'
    environ = {"KT_CONFIG": str(tmp_path / write(tmp_path, config, "config.toml")), "ALICE_PASSWORD": PASSWORD}

    def run(*words: str) -> Ran:
        return run_kt("--profile", "prod", "apply", *words, cwd=tmp_path, environ=environ)

    assert run("state.toml", "--check").status == ExitStatus.FINDINGS
    assert run("state.toml", "--dry-run").status == run("--from-cluster").status == ExitStatus.OK
    refused = run("state.toml", "--yes")
    assert refused.status == ExitStatus.USAGE and "is protected" in refused.err


DECLARED = """
acls = [{principal = "User:bob", topic = "orders", operations = "Read"}]
[topics.orders]
configs."retention.ms" = 1
[users.alice.SCRAM-SHA-256]
password-env = "ALICE_PASSWORD"
"""


def make_brokers_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers describe what was before the changes for longer than the command waits."""
    monkeypatch.setattr(changes, "carry_out", lambda admin, planned, _: [Outcome(change, DONE) for change in planned])
    monkeypatch.setattr("kafkatools.tools.declared.carry_out._WITHOUT_PROGRESS_MS", 0)


@pytest.mark.parametrize(
    ("words", "is_noted"),
    [
        (("empty.toml", "--prune"), True),
        (("--undo", "undo.jsonl"), True),
        (("state.toml", "--update-passwords"), False),
    ],
)
def test_changes_that_brokers_do_not_describe_are_noted(
    kt: Kt, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], is_noted: bool
) -> None:
    write(tmp_path, "acls = []\n[topics.orders]\n", "empty.toml")
    state = write(tmp_path, DECLARED)
    kt("apply", state, "--undo-file", "undo.jsonl")
    make_brokers_stale(monkeypatch)
    note = "The brokers do not describe all changes yet: the next plan may repeat them.\n"
    assert kt("apply", *words, "--yes").err.endswith(note) is is_noted
