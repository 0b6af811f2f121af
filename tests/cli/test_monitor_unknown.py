"""Lag on three embedded nodes while a coordinator or a leader is killed: nothing unknown is shown as 0."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.kt_process import start_kt
from support.waiting import eventually

from kafkatools import EmbeddedCluster, Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import alter_offsets
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.collector import ClusterCollector
from kafkatools.tools.monitor.view import ClusterView

pytestmark = pytest.mark.processes

_ENDS_S = 60
LAG = 24


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Three nodes, topic `orders` of three partitions with ten records each; group `shop` has consumed two of each."""
    with EmbeddedCluster(3) as nodes:
        with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("orders", 3, 3)])
            with Producer(bootstrap_servers=nodes.bootstrap) as producer:
                for number in range(30):
                    producer.send("orders", b"x", partition=number % 3)
            offsets = {("orders", partition): OffsetAndMetadata(2) for partition in range(3)}
            eventually(lambda: alter_offsets(admin, {"shop": offsets})["shop"].error is None)
        yield nodes


def lines(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def watch(home: pathlib.Path, nodes: EmbeddedCluster, *words: str) -> subprocess.Popen[bytes]:
    served = ("monitor", "--bootstrap-server", nodes.bootstrap, "--interval", "0.3", "--json", *words)
    return start_kt(home, *served)


def shop(look: dict[str, Any]) -> dict[str, Any]:
    (group,) = (group for group in look["groups"] if group["group"] == "shop")
    return dict(group)


def kill_coordinator(nodes: EmbeddedCluster, looks: Iterator[dict[str, Any]]) -> int:
    """Kill the coordinator once the lag is known and give its id."""
    first = next(look for look in looks if look["groups"] and look["totals"]["lag"] == LAG)
    victim = int(shop(first)["coordinator"])
    nodes.kill(victim)
    return victim


def test_lag_is_null_until_another_coordinator_tells_it(tmp_path: pathlib.Path, cluster: EmbeddedCluster) -> None:
    with watch(tmp_path, cluster) as process:
        looks = lines(process)
        victim = kill_coordinator(cluster, looks)
        seen = []
        for look in looks:
            seen.append(look)
            if look["totals"]["lag"] == LAG and shop(look)["coordinator"] != victim:
                break
        process.kill()
    lags = [look["totals"]["lag"] for look in seen]
    assert set(lags) == {None, LAG} and lags[-1] == LAG
    assert all(shop(look)["lag"] in (None, LAG) for look in seen), "the group is never missing, its lag never another"
    unknown = [look for look in seen if look["totals"]["lag"] is None]
    assert any(f"broker {victim}" in (shop(look)["unknown"] or "") for look in unknown)
    silent = {broker["id"] for look in seen for broker in look["brokers"] if not broker["answering"]}
    assert silent == {victim}
    named = {problem["broker"] for look in seen for problem in look["problems"] if problem["what"] == "no response"}
    assert named == {victim}
    assert not [event for look in seen for event in look["events"] if event["event"] == "group-gone"]


def test_an_alarm_is_unknown_with_its_reason(tmp_path: pathlib.Path, cluster: EmbeddedCluster) -> None:
    with watch(tmp_path, cluster, "--fail-if", "lag>1000") as process:
        looks = lines(process)
        victim = kill_coordinator(cluster, looks)
        last = list(looks)[-1]
        assert process.wait(_ENDS_S) == ExitStatus.FAILED
    assert last["findings"] == []
    assert any(
        text.startswith("lag>1000 is unknown for group shop: ") and f"broker {victim}" in text
        for text in last["unknown"]
    )


def test_an_alarm_of_consumer_groups_is_unknown_too(tmp_path: pathlib.Path, cluster: EmbeddedCluster) -> None:
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        replicas = {partition: [node] for partition, node in enumerate(cluster.node_ids)}
        create_topics(admin, [NewTopic("single", replicas_assignments=replicas)])
        offsets = {("single", partition): OffsetAndMetadata(0) for partition in replicas}
        eventually(lambda: alter_offsets(admin, {"shop": offsets})["shop"].error is None)
        looks: list[ClusterView] = []

        def have_leaders() -> bool:
            looks.append(ClusterCollector(admin, admin).collect())
            leaders = {part.partition: part.leader for part in looks[-1].partitions if part.topic == "single"}
            return leaders == {partition: node for partition, (node,) in replicas.items()}

        eventually(have_leaders)
        coordinator = next(group.coordinator for group in looks[-1].groups if group.group_id == "shop")
        lost, victim = next((partition, node) for partition, (node,) in replicas.items() if node != coordinator)
    words = ("consumer-groups", "--bootstrap-server", cluster.bootstrap, "--describe", "--group", "shop")
    cluster.kill(victim)
    with start_kt(tmp_path, *words, "--timeout", "3000", "--watch", "0.3", "--fail-if", "lag>1000") as process:
        _, err = process.communicate(timeout=_ENDS_S)
    assert process.returncode == ExitStatus.FAILED
    assert f"lag>1000 is unknown for group shop, single-{lost}: the end of the log is not known" in err.decode()
