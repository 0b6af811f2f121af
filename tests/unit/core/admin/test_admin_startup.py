"""What listing topics may load: the start-up of `kt topics --list` is paid in imports."""

import subprocess
import sys

from support.scripted_broker import ScriptedBroker

PROGRAM = """
import sys
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import list_topics
from kafkatools.core.clock import SystemClock
with AdminClient(sys.argv[1], {}, SystemClock()) as admin:
    print(len(list_topics(admin)))
print(" ".join(sorted(sys.modules)))
"""


def test_listing_topics_loads_no_heavy_module() -> None:
    broker = ScriptedBroker()
    broker.topics = [{"name": "a", "partitions": []}]
    with broker.in_background():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, broker.bootstrap], capture_output=True, text=True, timeout=60, check=True
        )
    count, modules = done.stdout.splitlines()
    assert count == "1"
    loaded = set(modules.split())
    assert loaded & {"asyncio", "hypothesis", "kio", "typer", "rich"} == set()
