"""kt acls against the recordings of kafka-acls.sh, and what only kt has: JSON, undo files, matches named first.

The order of ACLs changes from run to run of Kafka's tool: blocks and their lines are compared in sorted order. Kafka's
tool prints failures on stdout, with Java's names; here they are expected on stderr without. It cannot read an answer
where there is no terminal.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from support.scripted_broker import ScriptedBroker
from transcripts import Case, Difference, Expected

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_LISTED = (
    "1 of the ACLs for resource filter `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)` "
    "will be removed:"
)
_NONE = "No such ACL exists for resource filter `ResourcePattern(resourceType=TOPIC, name={}, patternType=LITERAL)`."
DIFFERENCES = {
    "003": Difference(
        "acls-listed", stderr="Error while executing ACL command: No Authorizer is configured on the broker"
    ),
    "020": Difference(
        "usage", status=ExitStatus.USAGE, stderr="expected a string in format principalType:principalName but got alice"
    ),
    "028": Difference("usage", stderr="Cannot parse argument 'fuzzy' of option resource-pattern-type"),
    "030": Difference("acls-answer", stderr=_LISTED),
    "031": Difference("acls-answer", status=ExitStatus.OK, stderr=_LISTED),
    "032": Difference("acls-answer", stderr=_NONE.format("orders")),
    "033": Difference("acls-listed", stderr=_NONE.format("orders")),
    "034": Difference("acls-listed", stderr=_NONE.format("ghost")),
    "039": _HELP._replace(status=ExitStatus.USAGE),
    "041": Difference("unreachable", stdout="", own_words=True),
    "045": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "046": Difference(
        "missing-file", stderr="Error while executing ACL command: absent.properties: no such properties file"
    ),
    "048": _HELP,
}
WITHOUT_AUTHORIZER = ("001", "002", "003")
NOT_HERE = {"035": "the embedded broker has no listener for controllers"}
_FAILURE = re.compile(
    r"^(Error while executing ACL command: )(?:[a-z]\w*\.)*(?:[A-Z]\w*Exception: )?(.*)\n(?s:.*)", re.MULTILINE
)
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def sorted_text(text: str) -> str:
    blocks = ["\n".join([head, *sorted(line.strip() for line in rest)]) for head, *rest in _blocks(text)]
    return "\n".join(sorted(blocks))


def _blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.strip("\n").split("\n\n") if block]


def expect(case: Case, wanted: Expected) -> Expected:
    """A failure is for stderr."""
    failure = _FAILURE.search(wanted.stdout)
    if failure is not None:
        stdout = _FAILURE.sub("", wanted.stdout)
        own = DIFFERENCES.get(case.number)
        error = own.stderr if own is not None and own.stderr is not None else failure[1] + failure[2]
        wanted = wanted._replace(stdout=stdout, error=error)
    return wanted


def _expect_sorted(case: Case, wanted: Expected) -> Expected:
    wanted = expect(case, wanted)
    return wanted._replace(stdout=sorted_text(wanted.stdout))


def _replay(bootstrap: str, directory: pathlib.Path, cases: list[Case]) -> list[str]:
    def run(case: Case) -> Ran:
        transcripts.write_files(case, directory)
        ran = run_kt("acls", *admin_tools.words(case, bootstrap), stdin=case.stdin.encode(), cwd=directory)
        return ran._replace(stdout=sorted_text(ran.out).encode())

    return transcripts.replay(cases, run, DIFFERENCES, _expect_sorted)


@pytest.mark.slow
def test_acls_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    cases = [case for case in transcripts.load("acls") if case.number not in NOT_HERE]
    plain = start_broker()
    failures = _replay(plain, tmp_path, [case for case in cases if case.number in WITHOUT_AUTHORIZER])
    guarded = start_broker(_SETTINGS)
    failures += _replay(guarded, tmp_path, [case for case in cases if case.number not in WITHOUT_AUTHORIZER])
    assert not failures, "\n".join(failures)


def _acls(
    bootstrap: str, *words: str, cwd: pathlib.Path, stdin: bytes = b"", status: ExitStatus = ExitStatus.OK
) -> Ran:
    ran = run_kt("acls", "--bootstrap-server", bootstrap, *words, cwd=cwd, stdin=stdin)
    assert ran.status == status, ran.err
    return ran


@pytest.mark.slow
def test_changes_can_be_taken_back(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker(_SETTINGS)
    alice = ("--allow-principal", "User:alice", "--topic", "orders")

    added = _acls(
        bootstrap,
        "--add",
        *alice,
        "--operation",
        "read",
        "--operation",
        "DESCRIBE_CONFIGS",
        "--json",
        "--undo-file",
        "add.jsonl",
        cwd=tmp_path,
    )
    rows = [json.loads(line) for line in added.out.splitlines()]
    assert [(row["outcome"], row["operation"]) for row in rows] == [("added", "READ"), ("added", "DESCRIBE_CONFIGS")]
    again = _acls(bootstrap, "--add", *alice, "--operation", "Read", cwd=tmp_path)
    assert again.out == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL), "
        "entry=(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)) already exists.\n"
    )
    before = _acls(bootstrap, "--list", "--json", cwd=tmp_path).out
    _look_first(bootstrap, alice, before, tmp_path)
    assert json.loads(before.splitlines()[1]) == {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "principal": "User:alice",
        "operation": "READ",
        "permission": "ALLOW",
        "host": "*",
        "pattern_type": "LITERAL",
    }

    refused = _acls(bootstrap, "--remove", "--topic", "orders", cwd=tmp_path, stdin=b"n\n", status=ExitStatus.FAILED)
    assert refused.err.splitlines()[-1] == "Nothing was removed."
    in_the_way = _acls(
        bootstrap,
        "--remove",
        "--topic",
        "orders",
        "--force",
        "--undo-file",
        "add.jsonl",
        cwd=tmp_path,
        status=ExitStatus.FAILED,
    )
    assert "The undo file add.jsonl cannot be written, so nothing was changed: File exists" in in_the_way.err
    assert _acls(bootstrap, "--list", "--json", cwd=tmp_path).out == before

    removed = _acls(bootstrap, "--remove", "--topic", "orders", "--force", "--undo-file", "remove.jsonl", cwd=tmp_path)
    assert removed.err.splitlines()[0].startswith("2 of the ACLs for resource filter")
    undo = [json.loads(line) for line in (tmp_path / "remove.jsonl").read_text().splitlines()]
    assert undo == [{"action": "add", **json.loads(line)} for line in before.splitlines()]
    assert _acls(bootstrap, "--list", cwd=tmp_path).out == ""
    assert (
        _acls(bootstrap, "--from-file", "remove.jsonl", cwd=tmp_path).out.splitlines()[-1]
        == "2 to add, 0 to remove, 0 already as requested"
    )
    assert _acls(bootstrap, "--list", "--json", cwd=tmp_path).out == before
    _acls(bootstrap, "--from-file", "add.jsonl", cwd=tmp_path)
    assert _acls(bootstrap, "--list", cwd=tmp_path).out == ""


def _look_first(bootstrap: str, alice: tuple[str, ...], before: str, directory: pathlib.Path) -> None:
    """--dry-run of every action: READ and DESCRIBE_CONFIGS are there."""

    def dry(*words: str) -> Ran:
        return _acls(bootstrap, *words, "--dry-run", cwd=directory)

    added = dry("--add", *alice, "--operation", "Read", "--operation", "Write").out.splitlines()
    assert added[0].endswith("already exists.")
    pattern = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"
    entry = "(principal=User:alice, host=*, operation={}, permissionType=ALLOW)"
    assert added[1:] == [f"would be added: {pattern} {entry.format('WRITE')}"]
    removed = dry("--remove", "--topic", "orders")
    assert removed.out.splitlines() == [
        f"would be removed: {pattern} {entry.format(operation)}" for operation in ("DESCRIBE_CONFIGS", "READ")
    ]
    assert removed.err == ""
    rows = [json.loads(line) for line in dry("--from-file", "add.jsonl", "--json").out.splitlines()]
    assert [(row["action"], row["outcome"], row["error"]) for row in rows] == [("remove", "planned", None)] * 2
    assert dry("--remove", "--topic", "ghost").err == "Nothing would change.\n"
    assert _acls(bootstrap, "--list", "--json", cwd=directory).out == before


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"action": "add"', "line 1, column 17: Expecting ',' delimiter"),
        ("\n[]", "line 2: the line is not a JSON object of strings"),
        ('{"action": "add"}', "line 1: the JSON object lacks the keys host, operation, "),
    ],
)
def test_mistakes_of_a_file_are_named_with_their_line(tmp_path: pathlib.Path, text: str, complaint: str) -> None:
    (tmp_path / "acls.jsonl").write_text(text)
    ran = run_kt("acls", "--bootstrap-server", "127.0.0.1:9", "--from-file", "acls.jsonl", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert ran.err.startswith(f"Error while executing ACL command: acls.jsonl, {complaint}")


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()


def test_a_principal_of_type_user_in_lower_case_is_warned_of(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    words = ("--add", "--topic", "orders", "--operation", "Read", "--dry-run", "--allow-principal")
    bootstrap = start_broker(_SETTINGS)
    ran = _acls(bootstrap, *words, "user:alice", cwd=tmp_path)
    assert "user:alice matches none of them. Did you mean User:alice?" in ran.err
    assert _acls(bootstrap, *words, "User:alice", cwd=tmp_path).err == ""


def test_only_the_listed_acls_are_removed(tmp_path: pathlib.Path) -> None:
    """Another one may be added before the answer, and is neither shown nor in the undo file."""
    binding = {"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}
    resource = {"resource_type": 2, "resource_name": "orders", "pattern_type": 3}
    broker = ScriptedBroker(
        {
            ApiKey.DESCRIBE_ACLS: lambda *_: {"resources": [{**resource, "acls": [binding]}]},
            ApiKey.DELETE_ACLS: lambda _, request: {"filter_results": [{"matching_acls": []} for _ in request.filters]},
        }
    )
    words = ("--bootstrap-server", broker.bootstrap, "--remove", "--topic", "orders", "--force")
    with broker.in_background():
        ran = run_kt("acls", *words, cwd=tmp_path)
    assert (ran.status, len(ran.err.splitlines())) == (ExitStatus.OK, 2)
    (filters,) = [request.filters for header, request in broker.requests if header.api_key == ApiKey.DELETE_ACLS]
    assert [(each.principal_filter, int(each.operation)) for each in filters] == [("User:alice", 3)]
