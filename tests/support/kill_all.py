"""Kills all three nodes of a cluster at once, again and again, and measures how long clients take to go on.

Clients are programs that write the time in ms to one topic and tell of each acknowledged and each read value. A client
has gone on when it tells of a value that was written after all nodes took connections again: what was in its buffers
does not count.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from support import apache_kafka, franz
from support.apache_kafka import ApacheKafka
from support.chaos import die_with_parent
from support.embedded_three_nodes import EmbeddedNodes

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError

CLIENTS = pathlib.Path(__file__).parents[1] / "history" / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
TOPIC, PARTITIONS = "times", 6
NODES = (1, 2, 3)
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "min.insync.replicas": "1",
}
START_S = 90
LOOK_S = 0.1
MAX_DOWN_S = 4.0
MAX_STAGGER_S = 1.5
REST_S = 12.0
ROLES: Mapping[str, Sequence[str]] = {
    "librdkafka": ("produced", "consumed", "consumed-848", "assigned"),
    "java": ("produced", "consumed", "consumed-848"),
    "franz-go": ("produced", "consumed"),
    "aiokafka": ("produced", "consumed"),
}


def commands(library: str) -> list[str]:
    """The program of a library, without its arguments; raises apache_kafka.Unavailable."""
    if library == "franz-go":
        return [franz.executable()]
    if library == "java":
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
        return [
            apache_kafka.java_executable(),
            *flags,
            "-cp",
            apache_kafka.jars(),
            str(CLIENTS / "SteadyClient.java"),
        ]
    module, script = {
        "librdkafka": ("confluent_kafka", "steady_confluent.py"),
        "aiokafka": ("aiokafka", "steady_aiokafka.py"),
    }[library]
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        raise apache_kafka.Unavailable(f"{PYTHON} has no {module}")
    return [PYTHON, str(CLIENTS / script)]


class SteadyClient:
    """A client's process. `newest` has the newest value that it reported, by role."""

    def __init__(self, library: str, command: Sequence[str], directory: pathlib.Path) -> None:
        self.library = library
        self.newest: dict[str, int] = dict.fromkeys(ROLES[library], 0)
        self._log = (directory / f"{library}.err").open("wb")
        self._process = subprocess.Popen(
            [*command], stdout=subprocess.PIPE, stderr=self._log, preexec_fn=die_with_parent, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if not line.endswith("\n"):  # the kill cut it off
                    return
                role, value = line.split()
                self.newest[role] = max(self.newest[role], int(value))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._log.close()


@dataclass
class Times:
    """Seconds from the moment that all nodes took connections until a client went on; None: it did not."""

    seconds: list[float | None] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        return None in self.seconds

    def __str__(self) -> str:
        known = [each for each in self.seconds if each is not None]
        silent = len(self.seconds) - len(known)
        if not known:
            return f"silent {silent} times"
        text = f"median {statistics.median(known):.1f} s, at most {max(known):.1f} s"
        return text + (f", silent {silent} times" if silent else "")


class KillAll:
    """The cluster and its clients. `apache`: nodes of Apache Kafka in the place of ours."""

    def __init__(self, home: pathlib.Path, seed: int, limit_s: float, *, apache: bool = False) -> None:
        self.home = home
        self.limit_s = limit_s
        self.times: dict[tuple[str, str], Times] = {}
        self.starts_s: list[float] = []
        self._random = random.Random(seed)
        make: Callable[..., ApacheKafka] = ApacheKafka if apache else EmbeddedNodes
        self.cluster = make(home, 3, SETTINGS)
        self.clients: list[SteadyClient] = []
        self._topics = 0

    def start(self, libraries: Sequence[str]) -> None:
        """Nodes, topic, clients, and the first value of each."""
        programs = {library: commands(library) for library in libraries}
        self.cluster.start()
        self._create(NewTopic(TOPIC, PARTITIONS, 3))
        for library, program in programs.items():
            arguments = [self.cluster.bootstrap, TOPIC, f"group-{library}"]
            self.clients.append(SteadyClient(library, [*program, *arguments], self.home))
        for client in self.clients:
            self.times.update({(client.library, role): Times() for role in client.newest})
        silent = self._wait_for_values(0, START_S)
        assert not silent, f"these did not begin within {START_S} s: {sorted(silent)}"

    def _create(self, topic: NewTopic) -> None:
        with AdminClient(self.cluster.bootstrap, {}, SystemClock()) as admin:
            deadline = time.monotonic() + START_S
            while (error := create_topics(admin, [topic])[topic.name].error) is not None:
                assert time.monotonic() < deadline, error
                time.sleep(LOOK_S)

    def _change_topics(self) -> None:
        """A topic goes and another one comes, so that the metadata moves on; best effort."""
        name, self._topics = f"passing-{self._topics}", self._topics + 1
        try:
            with AdminClient(self.cluster.bootstrap, {"default.api.timeout.ms": "5000"}, SystemClock()) as admin:
                create_topics(admin, [NewTopic(name, 3, 3)])
                delete_topics(admin, [f"passing-{self._topics - 2}"])
        except KafkaError:
            return

    def run_once(self) -> None:
        """Kill all, wait, start all in any order, and note when each client goes on.

        Members of groups have time for a heartbeat first: after two outages without one a member joins anew under
        another id, and the coordinator waits a session time-out of 45 s for the one that it knows."""
        time.sleep(REST_S)
        self._change_topics()
        for node in NODES:
            self.cluster.processes[node].send_signal(signal.SIGKILL)
        for node in NODES:
            self.cluster.kill(node)
        time.sleep(self._random.uniform(0, MAX_DOWN_S))
        order = self._random.sample(NODES, len(NODES))
        stagger_s = self._random.choice((0.0, self._random.uniform(0, MAX_STAGGER_S)))
        begun = time.monotonic()
        for node in order:
            self.cluster.start_node(node, wait=False)
            time.sleep(stagger_s)
        for node in NODES:
            self.cluster.wait_for_node(node, START_S)
        self.starts_s.append(time.monotonic() - begun)
        silent = self._wait_for_values(int(time.time() * 1000), self.limit_s)
        for key in silent:
            self.times[key].seconds.append(None)

    def _wait_for_values(self, since_ms: int, limit_s: float) -> set[tuple[str, str]]:
        """Wait until every client has reported a value that is not older; return the clients that did not in time."""
        begun = time.monotonic()
        waiting = {(client.library, role): client for client in self.clients for role in client.newest}
        while waiting and time.monotonic() - begun < limit_s:
            for (library, role), client in list(waiting.items()):
                assert client.is_running, f"the client of {library} ended: see {self.home}/{library}.err"
                if client.newest[role] > since_ms:
                    del waiting[library, role]
                    if since_ms:
                        self.times[library, role].seconds.append(time.monotonic() - begun)
            time.sleep(LOOK_S)
        return set(waiting)

    @property
    def silent(self) -> list[str]:
        """Clients that did not go on at least once."""
        return [" ".join(key) for key, times in self.times.items() if times.is_silent]

    def report(self) -> str:
        """A line for each client with the times it took."""
        nodes = f"{len(self.starts_s)} kill-alls; nodes took connections after at most {max(self.starts_s):.1f} s"
        return "\n".join([nodes, *(f"{library} {role}: {times}" for (library, role), times in self.times.items())])

    def close(self) -> None:
        """Leave nothing behind."""
        for client in self.clients:
            client.close()
        self.cluster.kill_all()
