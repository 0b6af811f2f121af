"""What the start of a broker loads: its imports are most of the time it takes."""

import pathlib
import subprocess
import sys

import pytest

USED_LATER = {
    "kafkatools.core.broker.coordinators.share_state.persister",
    "kafkatools.core.broker.coordinators.transactions.coordinator",
    "kafkatools.core.broker.replicas.directory_keeper",
    "kafkatools.core.log.cleaner.cleaner",
}
PROGRAM = """
import sys
from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
for start in range(2):
    setup = NodeSetup(single_node_config(sys.argv[1], "127.0.0.1", 0, {}), SystemClock())
    node = start_node(setup, format_if_needed=True)
    node.run_once(0)
    print(node.bootstrap)
    node.close()
print(*sys.modules)
"""


@pytest.mark.slow
def test_start_from_nothing_loads_no_heavy_module(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    *bootstraps, modules = done.stdout.splitlines()
    assert len(bootstraps) == 2
    loaded = set(modules.split())
    assert "kafkatools.core.broker.metadata.metadata_log" in loaded
    assert loaded & {"asyncio", "hypothesis", "kio", "rich", "typer"} == set()
    assert loaded & {"hashlib", "subprocess", "urllib.parse"} == set()
    assert loaded & USED_LATER == set()
