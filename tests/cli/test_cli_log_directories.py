"""kt log-dirs and kt reassign-partitions with the log directories of one broker, where replicas really move."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.broker_client import BrokerClient, batch
from support.embedded import embedded_broker
from support.kt import run_kt
from support.waiting import eventually

from kafkatools.exit_status import ExitStatus


def described(bootstrap: str) -> dict[str, dict[str, bool]]:
    """By directory: whether each replica is a future one."""
    ran = run_kt("log-dirs", "--bootstrap-server", bootstrap, "--describe")
    assert ran.status is ExitStatus.OK, ran.err
    (broker,) = json.loads(ran.out.splitlines()[-1])["brokers"]
    return {
        pathlib.Path(each["logDir"]).name: {row["partition"]: row["isFuture"] for row in each["partitions"]}
        for each in broker["logDirs"]
    }


@pytest.mark.slow
def test_replicas_move_between_directories_within_a_throttle(tmp_path: pathlib.Path) -> None:
    plan = tmp_path / "plan.json"
    with embedded_broker(pathlib.Path(f"{tmp_path}/a,{tmp_path}/b")) as bootstrap:
        wanted = {"topic": "t", "replicas": [1], "log_dirs": [f"{tmp_path}/b"]}
        plan.write_text(json.dumps({"version": 1, "partitions": [{**wanted, "partition": each} for each in range(3)]}))
        on_plan = ("reassign-partitions", "--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan))
        created = run_kt("topics", "--bootstrap-server", bootstrap, "--create", "--topic", "t", "--partitions", "3")
        assert created.status is ExitStatus.OK
        with BrokerClient("127.0.0.1", int(bootstrap.rpartition(":")[2])) as client:
            for _ in range(4):
                assert client.produce("t", batch([bytes(50_000)]), partition=0).error_code == 0
        assert described(bootstrap) == {"a": {"t-0": False, "t-2": False}, "b": {"t-1": False}}
        begun = run_kt(*on_plan, "--execute", "--replica-alter-log-dirs-throttle", "1")
        assert begun.status is ExitStatus.OK, begun.err
        assert f"Successfully started moving log directory to {tmp_path}/b for replica t-0 with broker 1" in begun.out
        assert described(bootstrap)["b"]["t-0"] is True
        assert "Reassignment of replica t-0-1 is still in progress." in run_kt(*on_plan, "--verify").out
        more = run_kt(*on_plan, "--execute", "--replica-alter-log-dirs-throttle", "1000000000", "--additional")
        assert more.status is ExitStatus.OK, more.err
        eventually(lambda: described(bootstrap) == {"a": {}, "b": {"t-0": False, "t-1": False, "t-2": False}}, 20)
        done = run_kt(*on_plan, "--verify")
        assert done.status is ExitStatus.OK
        assert "Reassignment of replica t-0-1 completed successfully." in done.out
