"""kt configs against the recordings of kafka-configs.sh, on one embedded broker.

Kafka's tool repeats its whole command line (passwords included) before the reason of a failure; here the reason alone
is expected. What one embedded broker cannot show stands in NOT_HERE.
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
from transcripts import Case, Difference, Expected

from kafkatools.core.admin.scram import ScramUpsertion
from kafkatools.exit_status import ExitStatus

NOT_HERE = {
    "033": "the settings of Kafka's broker",
    "051": "the loggers of Kafka's broker",
    "054": "the embedded broker's one logger cannot be removed",
    "105": "the embedded broker has no listener for controllers",
}
_ADAPTED = {"052": ("kafka.server.ReplicaManager", "root"), "053": ("kafka.server.ReplicaManager", "root")}
_USAGE = Difference("usage", status=ExitStatus.USAGE)
_ALL_USAGE = (
    "007",
    "011",
    "021",
    "024",
    "025",
    "026",
    "029",
    "046",
    "064",
    "065",
    "072",
    "080",
    "081",
    "082",
    "083",
    "086",
    "095",
    "096",
    "097",
    "098",
    "104",
)
_BOTH_MECHANISMS = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
DIFFERENCES = {number: _USAGE for number in _ALL_USAGE} | {
    "006": Difference(
        "configs-missing",
        status=ExitStatus.FAILED,
        stdout="",
        stderr="The topic 'ghost' doesn't exist and doesn't have dynamic config.",
    ),
    "028": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "044": Difference("configs-missing-broker", stderr="There is no broker 9: the brokers are 1"),
    "045": Difference(
        "configs-missing",
        status=ExitStatus.FAILED,
        stdout="",
        stderr="The broker '9' doesn't exist and doesn't have dynamic config.",
    ),
    "078": Difference(
        "configs-two-scram",
        status=ExitStatus.OK,
        stdout="Completed updating config for user carol.\n",
        stderr="",
    ),
    "079": Difference(
        "configs-two-scram",
        stdout=f"SCRAM credential configs for user-principal 'carol' are {_BOTH_MECHANISMS}\n",
    ),
    "084": Difference(
        "configs-two-scram",
        status=ExitStatus.OK,
        stdout="Completed updating config for user carol.\n",
        stderr="",
    ),
    "099": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", own_words=True),
    "106": Difference("unreachable", own_words=True),
    "112": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", own_words=True),
    "114": Difference("help", status=ExitStatus.OK, own_words=True),
}
_REASON = re.compile(r"(?:java\.util\.concurrent\.ExecutionException: )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


def expect(case: Case, wanted: Expected) -> Expected:
    lines = case.stderr.splitlines()
    if lines and lines[0].startswith("Error while executing config command"):
        reason = _REASON.sub("", lines[1])
        if case.number not in DIFFERENCES:
            wanted = wanted._replace(error=reason.replace(*_ADAPTED.get(case.number, ("", ""))))
    return wanted._replace(stdout=wanted.stdout.replace("Dynamic configs for broker 2 are:\n", ""))


def _words(case: Case, bootstrap: str) -> list[str]:
    there, here = _ADAPTED.get(case.number, ("BOOTSTRAP", bootstrap))
    adapted = case._replace(args=tuple(word.replace(there, here) for word in case.args))
    return admin_tools.words(adapted, bootstrap)


def _forget_quotas(bootstrap: str) -> None:
    """From case 115 on the recordings were made on a fresh cluster."""
    removed = (("--user", "bob", "consumer_byte_rate"), ("--user-defaults", "producer_byte_rate"))
    for *entity, name in removed:
        ran = run_kt("configs", "--bootstrap-server", bootstrap, "--alter", *entity, "--delete-config", name)
        assert ran.status == ExitStatus.OK, ran.err


@pytest.mark.slow
def test_configs_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker({"log.retention.ms": "-1"})
    topics = ("topics", "--bootstrap-server", bootstrap, "--create", "--topic")
    assert run_kt(*topics, "orders", "--config", "retention.ms=60000").status == ExitStatus.OK
    assert run_kt(*topics, "plain").status == ExitStatus.OK

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        if case.number == "115":
            _forget_quotas(bootstrap)
        return run_kt("configs", *_words(case, bootstrap), cwd=tmp_path)

    cases = [case for case in transcripts.load("configs") if case.number not in NOT_HERE]
    failures = transcripts.replay(cases, run, DIFFERENCES, expect)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--describe --entity-type topics --entity-type users",
         "Only 'users' and 'clients' entity types may be specified together"),
        ("--describe --broker 1 --broker-logger 1",
         "Only 'users' and 'clients' entity types may be specified together"),
        ("--describe --entity-type topics --entity-default",
         "--entity-default must not be specified with --describe of topics"),
        ("--describe --entity-type broker-loggers",
         "An entity name must be specified with --describe of broker-loggers"),
        ("--alter --entity-type users --add-config a=b",
         "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"),
        ("--alter --entity-type users --entity-name a --entity-type clients --add-config a=b",
         "An entity name must be specified for every entity type"),
        ("--alter --entity-type groups --entity-default --add-config a=b",
         "An entity name must be specified with --alter of groups"),
        ("--alter --user-defaults --client-defaults --delete-config SCRAM-SHA-256",
         "Only quota configs can be deleted for 'clients' using --bootstrap-server. "
         "Unexpected config names: ArrayBuffer(SCRAM-SHA-256)"),
    ],
)  # fmt: skip
def test_entities_are_refused_as_by_apache_kafka(words: str, message: str) -> None:
    # the messages of kafka-configs.sh 4.3.1
    ran = run_kt("configs", "--bootstrap-server", "localhost:9", *words.split())
    assert (ran.status, ran.out, ran.err.splitlines()[0]) == (ExitStatus.USAGE, "", message)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_a_topic_name_is_refused_with_the_words_of_topic_validate(name: str, problem: str) -> None:
    # org.apache.kafka.common.internals.Topic.validate
    ran = run_kt("configs", "--bootstrap-server", "localhost:9", "--alter", "--topic", name, "--add-config", "a=b")
    assert (ran.status, ran.err.splitlines()[0]) == (ExitStatus.USAGE, f"Topic name is invalid: {problem}")


def test_json(start_broker: Callable[..., str]) -> None:
    server = ("configs", "--json", "--bootstrap-server", start_broker())
    topic = ("topics", *server[1:], "--create", "--topic", "t", "--config", "segment.bytes=1048576")
    assert run_kt(*topic).status == ExitStatus.OK
    row = json.loads(run_kt(*server, "--describe", "--topic", "t").out)
    assert row["entity"] == {"topic": "t"}
    (entry,) = row["configs"]
    assert (entry["name"], entry["value"], entry["source"]) == ("segment.bytes", "1048576", "DYNAMIC_TOPIC_CONFIG")
    assert entry["synonyms"][-1] == {"name": "log.segment.bytes", "value": "1073741824", "source": "DEFAULT_CONFIG"}

    pair = ("--user", "alice", "--client-defaults")
    altered = run_kt(*server, "--alter", *pair, "--add-config", "producer_byte_rate=20000000")
    assert json.loads(altered.out) == {"entity": {"user": "alice", "client-id": None}, "altered": True}
    found = json.loads(run_kt(*server, "--describe", *pair).out)
    assert found == {"entity": {"user": "alice", "client-id": None}, "quotas": {"producer_byte_rate": 2e7}}
    text = run_kt(*server[:1], *server[2:], "--describe", *pair).out
    assert text.endswith("'alice', the default client-id are producer_byte_rate=2.0E7\n")

    secret = run_kt(*server, "--alter", "--user", "bob", "--add-config", "SCRAM-SHA-512=[password=s3cret]")
    assert secret.status == ExitStatus.OK and b"s3cret" not in secret.stdout + secret.stderr
    scram = json.loads(run_kt(*server, "--describe", "--user", "bob").out)
    assert scram == {"entity": {"user": "bob"}, "scram": {"SCRAM-SHA-512": {"iterations": 4096}}}
    refused = run_kt(*server, "--alter", "--topic", "t", "--add-config", "retention.ms=soon")
    assert json.loads(refused.err)["error"]["kind"] == "INVALID_CONFIG"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("[iterations=many,password=Tr0ub4dor&3]", "iterations=many,password=..."),
        ("[iterations=8192,pasword=Tr0ub4dor&3]", "iterations=8192,[hidden]"),
        ("[pasword=Tr0ub4dor&3]", "[hidden]"),
        ("[password:Tr0ub4dor&3]", "[hidden]"),
        ("[iterations=8192Tr0ub4dor&3]", "[hidden]"),
        ("Tr0ub4dor&3", "[hidden]"),
    ],
)
def test_a_malformed_credential_is_refused_without_its_password(value: str, shown: str) -> None:
    words = ("--alter", "--user", "u", "--add-config", f"SCRAM-SHA-256={value}")
    for more in ((), ("--dry-run",), ("--json",)):
        ran = run_kt("configs", "--bootstrap-server", "127.0.0.1:9", *words, *more)
        assert ran.status == ExitStatus.USAGE
        assert f"Invalid credential property SCRAM_SHA_256={shown}" in ran.err
        assert "Write SCRAM-SHA-256=[iterations=8192,password=...]" in ran.err
        assert b"Tr0ub" not in ran.stdout + ran.stderr


def test_a_malformed_credential_of_a_file_is_refused_without_its_password(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "credentials.properties"
    file.write_text("SCRAM-SHA-512=[password=Tr0ub4dor&3]\n")
    file.chmod(0o600)
    words = ("--alter", "--user", "u", "--add-config-file", str(file))
    ran = run_kt("configs", "--bootstrap-server", "127.0.0.1:9", *words)
    assert ran.status == ExitStatus.USAGE and b"Tr0ub" not in ran.stderr
    assert "In --add-config-file omit the brackets" in ran.err


def test_a_credential_to_delete_is_not_shown() -> None:
    words = ("--alter", "--user", "u", "--delete-config", "SCRAM-SHA-256=[pasword=Tr0ub4dor&3]")
    ran = run_kt("configs", "--bootstrap-server", "127.0.0.1:9", *words)
    assert ran.status == ExitStatus.USAGE and b"Tr0ub" not in ran.stderr
    assert "Unexpected config names: ArrayBuffer(SCRAM-SHA-256=[hidden])" in ran.err


def test_a_credential_of_python_is_shown_without_its_password() -> None:
    credential = ScramUpsertion("SCRAM-SHA-256", 8192, "Tr0ub4dor&3")
    assert "Tr0ub" not in repr(credential) + str(credential) + f"{[credential]}"
