"""kt acls, share-groups and delegation-tokens against one Apache Kafka with an authorizer and a SASL listener."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.ports import free_port
from support.waiting import eventually

from kafkatools.exit_status import ExitStatus

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import delegation_token_replay  # noqa: E402
import transcripts  # noqa: E402
from delegation_token_replay import masked  # noqa: E402
from transcripts import Case, Expected  # noqa: E402

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Secured(ApacheKafka):
    """With a SASL_PLAINTEXT listener beside the usual one; ANONYMOUS, who comes by that, may do everything."""

    def __init__(self, home: pathlib.Path) -> None:
        super().__init__(home)
        self.sasl = f"127.0.0.1:{free_port()}"
        plain, controller = self.bootstrap, f"127.0.0.1:{self.controller_ports[0]}"
        self.settings = {
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller},SASL_PLAINTEXT://{self.sasl}",
            "advertised.listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{self.sasl}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} user_alice="pw" user_bob="pw";',
            "delegation.token.secret.key": "sesame",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    @property
    def controller(self) -> str:
        return f"127.0.0.1:{self.controller_ports[0]}"


@pytest.fixture(scope="module")
def kafka(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    assert kafka_jars
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        made.start()
        yield made
    finally:
        made.kill_all()


def test_delegation_tokens_behave_as_recorded(kafka: Secured, tmp_path: pathlib.Path) -> None:
    hmac = ""
    count = 0
    words = ("--bootstrap-server", kafka.sasl, "--command-config", "alice.properties", "--json")

    def rows() -> list[str]:
        return run_kt("delegation-tokens", *words, "--describe", cwd=tmp_path).out.splitlines()

    def run(case: Case) -> Ran:
        nonlocal hmac, count
        transcripts.write_files(case, tmp_path)
        arguments = [word.replace("BOOTSTRAP", kafka.sasl).replace("HMAC", hmac) for word in case.args]
        ran = run_kt("delegation-tokens", *arguments, cwd=tmp_path)
        if ran.status == ExitStatus.OK:  # brokers learn of tokens a little later
            count += ("--create" in arguments) - ("--expire" in arguments)
            eventually(lambda: len(rows()) == count)
        if "--create" in arguments and not hmac:
            hmac = next(word for word in ran.out.split() if len(word) == 88 and word.endswith("=="))
        return ran._replace(stdout=masked(ran.out.replace(hmac, "HMAC") if hmac else ran.out).encode())

    def expect(case: Case, wanted: Expected) -> Expected:
        return wanted._replace(stdout=masked(delegation_token_replay.expect(case, wanted).stdout))

    cases = [case for case in transcripts.load("delegation-tokens") if "with PLAIN" in case.setup]
    assert len(cases) == 13
    failures = transcripts.replay(cases, run, delegation_token_replay.DIFFERENCES, expect)
    assert not failures, "\n".join(failures)

    tokens = {row["owner"]: row for row in map(json.loads, rows())}
    assert tokens["User:alice"]["renewers"] == ["User:bob", "User:carol"]
    assert tokens["User:bob"]["requester"] == "User:alice"

    seen = rows()
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac", tokens["User:alice"]["hmac"])
    for change in (("--create", "--max-life-time-period", "-1"), expire):
        dry = run_kt("delegation-tokens", *words, *change, "--dry-run", cwd=tmp_path)
        assert dry.status == ExitStatus.OK, dry.err
    assert rows() == seen


def test_acls_are_changed_and_taken_back_through_brokers_and_controllers(
    kafka: Secured, tmp_path: pathlib.Path
) -> None:
    def acls(*words: str, through: str = "--bootstrap-server") -> Ran:
        address = kafka.controller if through == "--bootstrap-controller" else kafka.bootstrap
        ran = run_kt("acls", through, address, *words, cwd=tmp_path)
        assert ran.status == ExitStatus.OK, ran.err
        return ran

    grant = ("--add", "--producer", "--allow-principal", "User:carol", "--topic", "pay", "--idempotent")
    acls(*grant, "--undo-file", "undo.jsonl", through="--bootstrap-controller")
    eventually(lambda: len(acls("--list", "--json").out.splitlines()) == 4)
    listed = acls("--list", through="--bootstrap-controller").out
    assert listed == acls("--list").out
    assert "\t(principal=User:carol, host=*, operation=IDEMPOTENT_WRITE, permissionType=ALLOW)\n" in listed
    removed = acls("--remove", "--topic", "pay", "--force", "--json", "--undo-file", "again.jsonl")
    assert {json.loads(line)["outcome"] for line in removed.out.splitlines()} == {"removed"}
    eventually(lambda: len(acls("--list", "--json").out.splitlines()) == 1)
    acls("--from-file", "again.jsonl")
    eventually(lambda: acls("--list").out == listed)
    acls("--from-file", "undo.jsonl")
    eventually(lambda: acls("--list").out == "")


def test_offsets_of_a_share_group_go_back_to_what_they_were(kafka: Secured, tmp_path: pathlib.Path) -> None:
    server = ("--bootstrap-server", kafka.bootstrap)
    assert run_kt("topics", *server, "--create", "--topic", "jobs", "--partitions", "2").status == ExitStatus.OK
    sent = run_kt("console-producer", *server, "--topic", "jobs", stdin=b"a\nb\nc\n")
    assert sent.status == ExitStatus.OK, sent.err

    def share(*words: str) -> str:
        ran = run_kt("share-groups", *server, *words, cwd=tmp_path)
        assert ran.status == ExitStatus.OK, ran.err
        return ran.out

    def starts() -> list[int | None]:
        row = json.loads(share("--describe", "--group", "workers", "--json"))
        return [part["start_offset"] for part in row["partitions"]]

    reset = ("--reset-offsets", "--group", "workers", "--topic", "jobs", "--execute")
    share(*reset, "--to-earliest", "--undo-file", "none.csv")
    eventually(lambda: starts() == [0, 0])
    share(*reset, "--to-latest", "--undo-file", "earliest.csv")
    eventually(lambda: sum(start or 0 for start in starts()) == 3)
    share("--reset-offsets", "--from-file", "earliest.csv", "--execute")
    eventually(lambda: starts() == [0, 0])
    share("--reset-offsets", "--from-file", "none.csv", "--execute")
    eventually(lambda: starts() == [None, None])
    assert share("--delete-offsets", "--group", "workers", "--topic", "jobs").splitlines()[1:] == [
        "TOPIC           STATUS",
        "jobs            Successful",
    ]
    assert share("--delete", "--group", "workers") == "Deletion of requested share groups ('workers') was successful.\n"


def test_topics_that_are_hidden_from_the_user_are_named(kafka: Secured, tmp_path: pathlib.Path) -> None:
    """A user with DESCRIBE on the cluster may read log directories, which name topics that lists leave out."""
    server = ("--bootstrap-server", kafka.bootstrap)
    for name in ("shown", "Hidden"):
        assert run_kt("topics", *server, "--create", "--topic", name).status == ExitStatus.OK
    for where, operations in ((("--cluster",), ("Describe", "DescribeConfigs")), (("--topic", "shown"), ("Describe",))):
        words = [word for each in operations for word in ("--operation", each)]
        granted = run_kt("acls", *server, "--add", "--allow-principal", "User:bob", *where, *words)
        assert granted.status == ExitStatus.OK, granted.err
    bob = tmp_path / "bob.properties"
    login = f'sasl.jaas.config={_PLAIN} username="bob" password="pw";\n'
    bob.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}")

    def unknown() -> list[str]:
        ran = run_kt("why", "--bootstrap-server", kafka.sasl, "--command-config", str(bob), "--json")
        found: list[str] = json.loads(ran.out)["unknown"]
        return found

    eventually(lambda: not any(text.startswith("log directories") for text in unknown()))
    (line,) = [text for text in unknown() if text.startswith("topics: ")]
    assert " hidden from this user, who lacks DESCRIBE: " in line
    assert line.rpartition(": ")[2].startswith("Hidden")
    for where in (("--cluster",), ("--topic", "shown")):  # other tests list all ACLs
        assert run_kt("acls", *server, "--remove", *where, "--force").status == ExitStatus.OK
