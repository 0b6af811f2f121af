"""kt undo of reassignments, on two nodes."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.kt import Ran, run_kt
from support.waiting import eventually

import kafkatools
from kafkatools.exit_status import ExitStatus


@pytest.mark.slow
def test_moved_replicas_come_back(tmp_path: pathlib.Path) -> None:
    with kafkatools.EmbeddedCluster(nodes=2) as cluster:

        def kt(command: str, *words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
            server = () if command == "undo" else ("--bootstrap-server", cluster.bootstrap)
            environ = {"KT_HOME": str(tmp_path / "home"), "KT_JOURNAL": "on"}
            start = words[:1] if words[0] == "run" else ()
            ran = run_kt(command, *start, *server, *words[len(start) :], cwd=tmp_path, environ=environ)
            assert ran.status == status, (words, ran.out, ran.err)
            return ran

        def replicas() -> list[list[int]]:
            described = json.loads(kt("topics", "--describe", "--topic", "orders", "--json").out)
            return [part["replicas"] for part in described["partitions"]]

        kt("topics", "--create", "--topic", "orders", "--replica-assignment", "1,2")
        moves = [{"topic": "orders", "partition": number, "replicas": [2 - number]} for number in (0, 1)]
        (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": moves}))
        kt("reassign-partitions", "--execute", "--reassignment-json-file", "plan.json")
        eventually(lambda: replicas() == [[2], [1]])
        shown = kt("undo", "last", "--dry-run").out
        assert "~ replicas of orders-0: 2 -> 1" in shown and "~ replicas of orders-1: 1 -> 2" in shown
        kt("undo", "last", "--yes")
        eventually(lambda: replicas() == [[1], [2]])

        kt("reassign-partitions", "run", "--reassignment-json-file", "plan.json", "--no-undo-file")
        entry = json.loads(kt("undo", "show", "last", "--json").out)
        assert [change["kind"] for change in entry["changes"]] == ["replicas", "replicas"]  # its throttles are gone
        kt("undo", "last", "--yes")
        eventually(lambda: replicas() == [[1], [2]])
