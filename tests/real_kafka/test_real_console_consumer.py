"""kt console-consumer against Apache Kafka: transactions, internal topics, and groups that both tools read through."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.kafkas_reader import read_until
from support.kt import Ran, run_kt

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.real_kafka
_RECORDED = pathlib.Path(__file__).parents[1] / "golden" / "cli" / "console-consumer"
TOOLS = "org.apache.kafka.tools.consumer."


def recorded(number: str) -> dict[str, Any]:
    [path] = _RECORDED.glob(f"{number}-*.json")
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return case


def ours(cluster: ApacheKafka, *args: str) -> Ran:
    return run_kt("console-consumer", "--bootstrap-server", cluster.bootstrap, *args)


def producer(cluster: ApacheKafka, **settings: Any) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(Config(PRODUCER, {"bootstrap.servers": cluster.bootstrap, **given}))


def in_transaction(cluster: ApacheKafka, topic: str, name: str, values: tuple[str, ...]) -> Producer:
    """A producer with an open transaction that holds these records."""
    made = producer(cluster, transactional_id=f"{name}-{topic}")
    made.init_transactions()
    made.begin_transaction()
    for value in values:
        made.send(ProducerRecord(topic, value.encode()))
    made.flush()
    return made


@pytest.fixture(scope="module")
def transactions(real_kafka: ApacheKafka) -> Iterator[str]:
    """The topic `txn` of the recordings."""
    topic = f"txn-{uuid.uuid4().hex[:8]}"
    real_kafka.tool("topics", "--create", "--topic", topic, "--partitions", "1")
    with in_transaction(real_kafka, topic, "tx-c", ("tx-c-0", "tx-c-1")) as committed:
        committed.commit_transaction()
    with in_transaction(real_kafka, topic, "tx-a", ("tx-a-0", "tx-a-1")) as aborted:
        aborted.abort_transaction()
    with producer(real_kafka) as plain:
        plain.send(ProducerRecord(topic, b"plain-after"))
        plain.flush()
        with in_transaction(real_kafka, topic, "tx-o", ("tx-o-0",)) as open_one:
            plain.send(ProducerRecord(topic, b"after-open"))
            plain.flush()
            yield topic
            open_one.abort_transaction()


@pytest.mark.parametrize("number", ["065", "066", "067"])
def test_isolation_is_as_recorded(real_kafka: ApacheKafka, transactions: str, number: str) -> None:
    case = recorded(number)
    args = [transactions if arg == "txn" else arg for arg in case["args"][2:]]
    args[args.index("--timeout-ms") :] = ["--exit-at-end"]
    ran = ours(real_kafka, *args)
    assert (ran.status, ran.out) == (ExitStatus.OK, case["stdout"]), ran.err
    lines = ran.err.splitlines()
    if "read_committed" in args:
        open_one = rf"{transactions}-0 ends at offset 7: the transaction of producer \d+ that begins there is open"
        assert re.fullmatch(open_one, lines.pop(0))
    assert lines[0] == "complete: 1/1 partitions", "markers and open transactions do not hide the end"


def objects(text: str) -> list[str]:
    """The JSON objects of a text, with or without newlines between them."""
    found, position = [], 0
    while position < len(text):
        _, end = json.JSONDecoder().raw_decode(text, position)
        found.append(text[position:end])
        position = end + (text[end : end + 1] == "\n")
    return found


@pytest.mark.parametrize(
    ("formatter", "topic", "number"),
    [
        ("OffsetsMessageFormatter", "__consumer_offsets", "084"),
        ("GroupMetadataMessageFormatter", "__consumer_offsets", "085"),
        ("TransactionLogMessageFormatter", "__transaction_state", "088"),
    ],
)
def test_internal_topics_print_as_the_real_tool_prints_them(
    real_kafka: ApacheKafka, transactions: str, formatter: str, topic: str, number: str
) -> None:
    group = f"internal-{number}-{uuid.uuid4().hex[:8]}"
    assert ours(real_kafka, "--topic", transactions, "--group", group, "--exit-at-end").status == ExitStatus.OK
    args = ("--topic", topic, "--from-beginning", "--formatter", TOOLS + formatter)
    present = set(ours(real_kafka, *args, "--exit-at-end").out.splitlines())

    def has_all(text: str) -> bool:
        with contextlib.suppress(ValueError):  # the last object may be there in part
            return present <= set(objects(text))
        return False

    theirs = objects(read_until(real_kafka, has_all, *args))
    ran = ours(real_kafka, *args, "--exit-at-end")
    assert ran.status == ExitStatus.OK, ran.err
    printed = ran.out.splitlines()
    assert list(json.loads(objects(recorded(number)["stdout"])[0])) == list(json.loads(printed[0]))
    assert theirs
    assert set(theirs) <= set(printed), "what the real tool printed, byte for byte"
    # It joined a group to read, and left it since: that is all that ours saw and it did not.
    for line in set(printed) - set(theirs):
        assert json.loads(line)["key"]["data"]["group"].startswith("console-consumer-"), line


def test_group_goes_on_from_one_tool_to_the_other(real_kafka: ApacheKafka) -> None:
    topic, group = (f"turns-{uuid.uuid4().hex[:8]}" for _ in range(2))
    real_kafka.tool("topics", "--create", "--topic", topic, "--partitions", "1")
    with producer(real_kafka) as made:
        for index in range(8):
            made.send(ProducerRecord(topic, b"%d" % index))
    args = ("--topic", topic, "--group", group, "--from-beginning")
    assert real_kafka.tool("console-consumer", *args, "--max-messages", "2").split() == ["0", "1"]
    assert ours(real_kafka, *args, "--max-messages", "3").out.split() == ["2", "3", "4"]
    assert real_kafka.tool("console-consumer", *args, "--max-messages", "1").split() == ["5"]
    ran = ours(real_kafka, *args, "--exit-at-end", "--command-property", "group.protocol=classic")
    assert (ran.out.split(), ran.status) == (["6", "7"], ExitStatus.OK)
