"""The examples of docs/python.md run as they stand there, against the embedded broker and against Apache Kafka; and
what a program meets that does something wrong, or is ended in the middle."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.waiting import PATIENCE_S

import kafkatools

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
ADDRESS = "localhost:9092"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PROGRAMS = [code for code in EXAMPLES if ADDRESS in code]
PRINTED = {
    "greetings": "0 b'en' b'hello'\n1 b'fr' b'bonjour'\n",
    "orders": "orders 0 0\n",
    "rows": "10000\n",
    "readings": "[21.5, 21.7, 21.6]\n",
    "sizes": "sizes 0 3 6 b'a'\n",
    "jobs": "{TopicPartition(topic='jobs', partition=0): OffsetAndMetadata(offset=10, leader_epoch=",
    "audit": "['audit'] ['more']\n0 1 (1,)\n1 1 (1,)\n2 1 (1,)\n3600000 DYNAMIC_TOPIC_CONFIG\n",
    "payments": "3\n{TopicPartition(topic='payments', partition=0): OffsetAndMetadata(offset=3, leader_epoch=-1, "
    "metadata='')}\nEmpty\n",
    "parts": "{} []\nNone True\n",
}
KILLED = "cluster.kill("
# A topic that was just made: brokers know its leader before the leader does.
NOT_LED_YET = r".*Got error produce response from node .* Error: (NOT_LEADER_OR_FOLLOWER|UNKNOWN_TOPIC_OR_PARTITION)"
LOST = r"\[\w+.*?\] (Connection to node \d \(.*\) failed: |127\.0\.0\.1:\d+ closed the connection$)"
"""What a client of a broker that is killed logs."""
NAMES = (
    *PRINTED,
    *("numbers", "events", "invoices", "ledger", "words", "shouts", "plain", "more"),
    *("billing-1", "shouter-1", "workers", "shouters", "accounting", "loader"),
)


def topic_of(code: str) -> str:
    """The topic that an example is about."""
    return next((name for name in re.findall(r'"([a-z]+)"', code) if name in PRINTED), "")


def run(code: str, *, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """A program of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    with kafkatools.EmbeddedBroker() as broker:
        yield broker.bootstrap


def run_examples(bootstrap: str, prefix: str = "") -> None:
    """All programs of the page, one after the other, and what they left. Names get a prefix, for a shared cluster."""
    names = re.compile(rf'"({"|".join(NAMES)})"')
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(f"{prefix}parts")  # the program about its replicas does not wait for its leader
    for code in PROGRAMS:
        done = run(names.sub(rf'"{prefix}\1"', code.replace(ADDRESS, bootstrap)))
        told = [line for line in done.stderr.splitlines() if not re.match(NOT_LED_YET, line)]
        assert (done.returncode, told) == (0, []), f"{code}\n{done.stderr}"
        assert done.stdout.replace(prefix, "").startswith(PRINTED.get(topic_of(code), "")), code
        assert bool(done.stdout) == ("print(" in code)
    assert read_all(bootstrap, f"{prefix}invoices") == [b"invoice 1"]
    assert read_all(bootstrap, f"{prefix}shouts") == [b"ONE", b"TWO", b"THREE"]
    words = kafkatools.TopicPartition(f"{prefix}words", 0)
    with kafkatools.Consumer(bootstrap_servers=bootstrap, group_id=f"{prefix}shouters") as consumer:
        found = consumer.committed([words])[words]
    assert found is not None and found.offset == 3


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    """The committed values of a topic's first partition."""
    with kafkatools.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in consumer.read_to_end()]


def test_examples_run_against_the_embedded_broker(embedded: str) -> None:
    assert len(PROGRAMS) >= 10 and {topic_of(code) for code in PROGRAMS} >= set(PRINTED) - {"greetings"}
    run_examples(embedded)


@pytest.mark.parametrize("code", [code for code in EXAMPLES[1:] if ADDRESS not in code and "pytest" not in code])
def test_examples_with_a_broker_of_their_own_run(code: str) -> None:
    done = run(code)
    told = [line for line in done.stderr.splitlines() if KILLED not in code or not re.match(LOST, line)]
    assert (done.returncode, told) == (0, []), code
    assert bool(done.stdout) == ("print(" in code)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_examples_run_against_apache_kafka(real_kafka: Any) -> None:
    run_examples(real_kafka.bootstrap, "guide-")


def test_first_example_needs_nothing_but_the_package() -> None:
    done = run(EXAMPLES[0])
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED["greetings"], "")


def test_fixture_for_pytest_works(tmp_path: pathlib.Path) -> None:
    code = next(code for code in EXAMPLES if "@pytest.fixture" in code)
    (tmp_path / "test_parcels.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_parcels.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


INTERRUPTED = """
import sys, kafkatools
with kafkatools.{client}(bootstrap_servers={bootstrap!r}) as client:
    {prepare}
    print("waiting", flush=True)
    {wait}
"""


@pytest.mark.parametrize(
    ("client", "prepare", "wait"),
    [
        ("Consumer", 'client.assign([("idle", 0)])', "for record in client: pass"),
        ("Producer", "pass", 'client.send("idle", b"x").result()'),
    ],
)
def test_ctrl_c_ends_a_wait_at_once(client: str, prepare: str, wait: str) -> None:
    """The broker is stopped, so that nothing ever comes."""
    with kafkatools.EmbeddedBroker() as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        code = INTERRUPTED.format(client=client, bootstrap=broker.bootstrap, prepare=prepare, wait=wait)
        program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"waiting\n"
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=15)
        finally:
            program.kill()
            os.kill(broker.pid, signal.SIGCONT)
        assert errors.rstrip().endswith(b"KeyboardInterrupt")


PARENT = """
import kafkatools, os, signal
broker = kafkatools.EmbeddedBroker()
broker.start()
print(broker.pid, broker._home, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_broker_goes_with_the_program_that_is_killed() -> None:
    done = run(PARENT)
    pid, home = done.stdout.split()
    assert done.returncode == -signal.SIGKILL
    waited = 0
    while pathlib.Path(home).exists() and waited < 500:
        waited += 1
        subprocess.run(["sleep", "0.02"], check=True)
    assert not pathlib.Path(home).exists()
    with pytest.raises(ProcessLookupError):
        for _ in range(500):
            os.kill(int(pid), 0)
            subprocess.run(["sleep", "0.02"], check=True)


def test_broker_comes_back_with_its_data_after_kill_9() -> None:
    with kafkatools.EmbeddedBroker() as broker:
        home, address = broker._home, broker.bootstrap
        with kafkatools.Producer(bootstrap_servers=address) as producer:
            producer.send_many("kept", [b"1", b"2"]).result()
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert broker.bootstrap == address
        assert read_all(address, "kept") == [b"1", b"2"]
    assert home is not None and not pathlib.Path(home).exists()


def test_data_in_a_directory_of_the_callers_stays(tmp_path: pathlib.Path) -> None:
    for expected in (0, 1):
        with (
            kafkatools.EmbeddedBroker(directory=tmp_path / "data") as broker,
            kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            assert producer.send("kept", b"x").result().offset == expected
    assert (tmp_path / "data" / "kept-0").is_dir()
