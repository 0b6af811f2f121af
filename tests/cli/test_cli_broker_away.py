"""Commands that move records while a broker is away: what it alone has is named, and counts neither as copied nor as
sent."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.waiting import eventually

from kafkatools import EmbeddedBroker, EmbeddedCluster, Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.exit_status import ExitStatus

LOST = 3


class Half:
    """A cluster of three brokers. Topics `on1` to `on3` have their replica on one, `spread` has one on each."""

    def __init__(self, cluster: EmbeddedCluster, home: pathlib.Path) -> None:
        self.cluster, self.home = cluster, home
        self.config = home / "client.properties"
        self.config.write_text(
            "request.timeout.ms=700\ndefault.api.timeout.ms=1200\nmax.block.ms=2500\ndelivery.timeout.ms=3000\n"
            "linger.ms=0\nsocket.connection.setup.timeout.ms=1000\n"
        )

    def kt(self, *words: str) -> Ran:
        return run_kt(*words, "--bootstrap-server", self.cluster.bootstrap, "--command-config", str(self.config))

    def has_leader(self, topic: str) -> bool:
        ran = self.kt("topics", "--describe", "--topic", topic, "--json")
        return ran.status == 0 and all(part["leader"] for part in json.loads(ran.out)["partitions"])

    def restart(self) -> None:
        self.cluster.restart(LOST)
        eventually(lambda: self.has_leader("spread"))

    def values(self, topic: str, bootstrap: str | None = None) -> list[str]:
        words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
        ran = run_kt("console-consumer", *words, "--bootstrap-server", bootstrap or self.cluster.bootstrap)
        assert ran.status == 0, ran.err
        return sorted(ran.out.split())


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Half]:
    """Broker 3 is away. It coordinates neither groups nor transactions."""
    settings = {
        "offsets.topic.replication.factor": 3,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 3,
        "broker.session.timeout.ms": 1500,
        "broker.heartbeat.interval.ms": 300,
    }
    with EmbeddedCluster(3, settings) as cluster:
        started = Half(cluster, tmp_path_factory.mktemp("half"))
        for topic, replicas in {"spread": "1,2,3", "dlq": "1", "on2": "2", "on3": "3"}.items():
            assert started.kt("topics", "--create", "--topic", topic, "--replica-assignment", replicas).status == 0
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(9):
                producer.send(ProducerRecord("spread", b"%d" % number, None, number % 3))
            for number in range(8):
                headers = [("__streams.errors.topic", b"on%d" % (2 + number % 2))]
                producer.send(ProducerRecord("dlq", b"%d" % number, None, 0, None, headers))
        cluster.kill(LOST)
        eventually(lambda: not started.has_leader("spread"))
        yield started


@pytest.mark.slow
def test_a_partition_without_a_leader_is_named(half: Half, tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as target:
        words = ("migrate", "--through", str(tmp_path / "through"), "--to-bootstrap-server", target)
        ran = half.kt(*words, "--topic", "spread", "--cut", "--json")
        assert ran.status is ExitStatus.FAILED
        row = json.loads(ran.out)
        assert (row["records"], row["lag"], row["unread_partitions"]) == (6, None, 1)
        assert "No cut: 1 partition was not read to the end, such as spread-2" in ran.err

        sent = half.kt("redrive", "dlq", "--json")
        assert sent.status is ExitStatus.FINDINGS, sent.err
        row, left = map(json.loads, sent.out.splitlines())
        assert (row["target"], row["records"], left["target"]) == ("on2", 4, "on3")
        assert left["message"].startswith("topic on3: partition 0 has no leader")
        refused = half.kt("redrive", "spread", "--to", "on2")
        assert refused.status is ExitStatus.FAILED
        assert refused.err.splitlines()[0] == "spread-2 has no leader: nothing was sent back"

        half.restart()
        again = half.kt(*words, "--topic", "spread", "--cut")
        assert again.status is ExitStatus.OK, again.err
        assert half.values("spread", target) == half.values("spread") == [str(number) for number in range(9)]
        assert half.kt("redrive", "dlq").status is ExitStatus.OK
        assert half.values("on2") + half.values("on3") == ["0", "2", "4", "6", "1", "3", "5", "7"]


@pytest.mark.slow
def test_a_coordinator_that_is_not_available_is_named(tmp_path: pathlib.Path) -> None:
    """Nothing is restored without the mark of the restore, and no offset is taken for missing."""
    journal = {"KT_JOURNAL": "on", "KT_HOME": str(tmp_path / "home")}
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=600\nmax.block.ms=600\n")
    with EmbeddedBroker() as broker:

        def kt(*words: str) -> Ran:
            server = ("--bootstrap-server", broker.bootstrap, "--command-config", str(config))
            return run_kt(*words, *server, environ=journal, cwd=tmp_path)

        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"value").result()
        reset = ("--group", "billing", "--topic", "orders", "--to-latest")
        assert kt("consumer-groups", "--reset-offsets", *reset, "--execute").status == 0
        assert kt("backup", "--to", str(tmp_path / "kept"), "--topic", "orders").status == 0
        with broker.faults.add("error", api="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE"):
            restored = kt("restore", "--from", str(tmp_path / "kept"), "--rename", "orders=new")
            undone = kt("undo", "1", "--yes")
            sent = kt("redrive", "orders", "--to", "new")
            kept = kt("backup", "--to", str(tmp_path / "kept"), "--topic", "orders")
        assert {each.status for each in (restored, undone, sent, kept)} == {ExitStatus.FAILED}
        assert "Removed 1 empty topic that this run created: new" in restored.err
        assert "to-new, which marks the restore: The coordinator is not available." in restored.err
        assert "! group billing orders-0: cannot be undone: The coordinator is not available." in undone.out
        assert sent.err.startswith("At least 0 records were sent back, then: Timeout expired")
        assert "The offsets of group billing are not in the backup: The coordinator is not available." in kept.err
        assert kt("undo", "1", "--yes").status is ExitStatus.OK
