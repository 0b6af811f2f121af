"""An address where nothing listens: every client fails with one error that names it, and one line in the log."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.kt_process import BrokerProcess, error_lines, kt_process
from support.ports import free_port

import kafkatools
from kafkatools.core.errors import ConnectionFailed

PROGRAMS = {
    "send": "kafkatools.Producer(bootstrap_servers=ADDRESS).send('t', b'x').result()",
    "send_many": "kafkatools.Producer(bootstrap_servers=ADDRESS).send_many('t', [b'x']).result()",
    "init_transactions": "kafkatools.Producer(bootstrap_servers=ADDRESS, transactional_id='t').init_transactions()",
    "poll": "c = kafkatools.Consumer(GROUP)\nc.subscribe(['t'])\nwhile True: c.poll(100)",
    "poll_columns": "c = kafkatools.Consumer(GROUP)\nc.assign([('t', 0)])\nwhile True: c.poll_columns(100)",
    "iterate": "c = kafkatools.Consumer(GROUP)\nc.subscribe(['t'])\nfor record in c: pass",
    "end_offsets": "kafkatools.Consumer(bootstrap_servers=ADDRESS).end_offsets([('t', 0)])",
    "read_to_end": "c = kafkatools.Consumer(bootstrap_servers=ADDRESS)\nc.assign([('t', 0)])\nc.seek_to_beginning()\n"
    "for record in c.read_to_end(): pass",
    "position": "c = kafkatools.Consumer(bootstrap_servers=ADDRESS)\nc.assign([('t', 0)])\nc.position(('t', 0))",
    "committed": "kafkatools.Consumer(GROUP).committed([('t', 0)])",
    "commit_sync": "kafkatools.Consumer(GROUP).commit_sync({('t', 0): 0})",
    "admin": "kafkatools.Admin(bootstrap_servers=ADDRESS).list_topics()",
}
"""Each would go on for max.block.ms, a minute, or for ever."""
PREFIXES = {
    "init_transactions": "[Producer transactionalId=t] ",
    **dict.fromkeys(("send", "send_many"), "[Producer] "),
    **dict.fromkeys(("end_offsets", "read_to_end", "position"), "[Consumer] "),
    **dict.fromkeys(("poll", "poll_columns", "iterate", "committed", "commit_sync"), "[Consumer groupId=g] "),
    "admin": "[AdminClient] ",
}
"""What the line in the log begins with."""

FRAME = """
import kafkatools
ADDRESS = {address!r}
GROUP = {{"bootstrap.servers": ADDRESS, "group.id": "g"}}
try:
    exec({program!r})
except kafkatools.errors.ConnectionFailed as error:
    print(error)
import os, sys
sys.stdout.flush()
os._exit(0)  # closing would wait for what was not sent
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_fails_with_one_error_and_one_line(name: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    program = FRAME.format(address=address, program=PROGRAMS[name])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    line = f"Connection to {address} failed: Connection refused\n"
    assert (done.stdout, done.stderr) == (line, PREFIXES[name] + line)


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "--list"),
        ("console-producer", "--topic", "t"),
        ("console-consumer", "--topic", "t", "--group", "g"),
        ("consumer-groups", "--list"),
        ("verifiable-consumer", "--topic", "t", "--group-id", "g"),
        ("consumer-perf-test", "--topic", "t", "--num-records", "1"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_names_the_address_in_one_error(tmp_path_factory: pytest.TempPathFactory, words: tuple[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    ran = kt_process(tmp_path_factory.mktemp("home"), words[0], "--bootstrap-server", address, *words[1:])
    assert ran.returncode == 1
    assert sum(f"Connection to {address} failed: Connection refused" in line for line in error_lines(ran.stderr)) == 1


def test_a_broker_that_answered_once_is_waited_for(broker: BrokerProcess) -> None:
    with kafkatools.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.list_topics() == {}
        consumer.assign([("t", 0)])
        broker.kill()
        for _ in range(8):
            assert consumer.poll(1000).count == 0
    with pytest.raises(ConnectionFailed), kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.list_topics()
