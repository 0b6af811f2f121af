"""kt apply against three nodes: replicas, and the reassignment that a plan names for another replication factor."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest
from support.kt import Ran, run_kt

import kafkatools
from kafkatools.exit_status import ExitStatus

_STATE = """
[topics."shop.orders"]
partitions = 4
replication = {replication}
configs."min.insync.replicas" = 2
"""


@pytest.mark.slow
def test_the_named_commands_make_what_apply_cannot(tmp_path: pathlib.Path) -> None:
    with kafkatools.EmbeddedCluster(nodes=3) as cluster:

        def kt(*words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
            ran = run_kt(words[0], *words[1:], cwd=tmp_path, environ={"KT_CONFIG": str(tmp_path / "config.toml")})
            assert ran.status == status, (words, ran.out, ran.err)
            return ran

        profile = f'default = "c"\n[profiles.c]\nbootstrap_servers = "{cluster.bootstrap}"\n'
        (tmp_path / "config.toml").write_text(profile)
        (tmp_path / "two.toml").write_text(_STATE.format(replication=2))
        (tmp_path / "three.toml").write_text(_STATE.format(replication=3))
        kt("apply", "two.toml")
        kt("apply", "two.toml", "--check")

        ran = kt("apply", "three.toml", "--json", status=ExitStatus.FAILED)
        (change,) = [json.loads(line) for line in ran.out.splitlines()]
        assert (change["action"], change["changes"]) == ("impossible", [{"name": "replication", "old": 2, "new": 3}])
        for command in change["remedy"].split(" && "):
            kt(*shlex.split(command)[1:])
        kt("apply", "three.toml", "--check")
        assert "replication = 3" in kt("apply", "--from-cluster").out


@pytest.mark.slow
def test_replicas_that_a_reassignment_adds_are_no_difference(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.toml").write_text("topics.moved = {partitions = 1, replication = 2}")
    move = {"topic": "moved", "partition": 0, "replicas": [3, 2]}
    (tmp_path / "move.json").write_text(json.dumps({"version": 1, "partitions": [move]}))
    with kafkatools.EmbeddedCluster(nodes=3) as cluster:

        def kt(command: str, *words: str) -> str:
            ran = run_kt(command, "--bootstrap-server", cluster.bootstrap, *words, cwd=tmp_path)
            assert ran.status == ExitStatus.OK, (ran.out, ran.err)
            return ran.out

        kt("topics", "--create", "--topic", "moved", "--replica-assignment", "1:2")
        with kafkatools.Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for _ in range(200):
                producer.send("moved", b"x" * 5000)
        kt("reassign-partitions", "--execute", "--reassignment-json-file", "move.json", "--throttle", "100")
        assert "adding: 3. removing: 1." in kt("reassign-partitions", "--list")
        kt("apply", "t.toml", "--check")
        assert "replication = 2" in kt("apply", "--from-cluster")
        table = kt("monitor", "--once", "--view", "topics").splitlines()
        (row,) = [line for line in table if line.startswith("moved ")]
        assert row.split()[1:3] == ["1", "2"]
