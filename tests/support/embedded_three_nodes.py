"""Nodes of the embedded broker as processes of `kt server-start`, in the place of Apache Kafka's: what is tested on
those is tested on these with the same words."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Mapping

from support.apache_kafka import CLUSTER_ID, ApacheKafka
from support.kt import run_kt
from support.kt_process import KT
from support.three_nodes import ThreeNodes


class EmbeddedNodes(ApacheKafka):
    """Nodes with the settings that Apache Kafka's would have."""

    def format(self, node: int = 1) -> None:
        formatted = run_kt("storage", "format", "-t", CLUSTER_ID, "-c", str(self._properties(node)))
        assert formatted.status == 0, formatted.err

    def start_node(self, node: int = 1, *, wait: bool = True) -> None:
        properties = self._properties(node)
        environment = {**os.environ, "KT_HOME": str(self.home), "KT_SANDBOX": "off"}
        with (self.home / f"node{node}" / "server.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [*KT, "server-start", str(properties)], stdout=log, stderr=log, env=environment
            )
        if wait:
            self.wait_for_node(node)


class EmbeddedThreeNodes(EmbeddedNodes, ThreeNodes):
    """The three brokers of `three_nodes`; one more setting tells the first that its controller has other brokers."""

    def __init__(self, home: pathlib.Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(home, settings)
        self.settings["controller.quorum.bootstrap.servers"] = self.controller
