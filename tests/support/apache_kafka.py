"""A real Apache Kafka for the tests: its jars through Maven, its tools, and clusters of one or three brokers.

Jars are kept in the user's cache (KT_TEST_CACHE overrides). Without Java 17+ or Maven the tests that need them are
skipped, or fail when KT_REQUIRE_ALL=1 (as in CI).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent import futures

from . import class_archive, tool_server
from .embedded import WITHOUT_RETENTION
from .ports import free_port
from .waiting import PATIENCE_S

VERSION = "4.3.1"
CACHE = pathlib.Path(os.environ.get("KT_TEST_CACHE") or pathlib.Path.home() / ".cache" / "kafkatools" / "tests")
_TOOLS = "org.apache.kafka.tools."
MAIN_CLASSES = {
    "topics": _TOOLS + "TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": _TOOLS + "ConsoleProducer",
    "console-consumer": _TOOLS + "consumer.ConsoleConsumer",
    "dump-log": _TOOLS + "DumpLogSegments",
    "get-offsets": _TOOLS + "GetOffsetShell",
    "delete-records": _TOOLS + "DeleteRecordsCommand",
    "metadata-quorum": _TOOLS + "MetadataQuorumCommand",
    "storage": "kafka.tools.StorageTool",
    "producer-perf-test": _TOOLS + "ProducerPerformance",
    "consumer-groups": _TOOLS + "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": _TOOLS + "ConsumerPerformance",
    "e2e-latency": _TOOLS + "EndToEndLatency",
    "verifiable-producer": _TOOLS + "VerifiableProducer",
    "verifiable-consumer": _TOOLS + "VerifiableConsumer",
    "transactions": _TOOLS + "TransactionsCommand",
    "features": _TOOLS + "FeatureCommand",
    "transactional-message-copier": _TOOLS + "TransactionalMessageCopier",
    "console-share-consumer": _TOOLS + "consumer.ConsoleShareConsumer",
    "verifiable-share-consumer": _TOOLS + "VerifiableShareConsumer",
    "share-groups": _TOOLS + "consumer.group.ShareGroupCommand",
    "reassign-partitions": _TOOLS + "reassign.ReassignPartitionsCommand",
    "streams-application-reset": _TOOLS + "StreamsResetter",
    "server": "kafka.Kafka",
}
UNSHARED = ("verifiable-producer", "verifiable-consumer", "verifiable-share-consumer", "server")
"""These exit, or close what they opened, in hooks of the JVM's end."""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_formatted: dict[tuple[str, int], dict[str, bytes]] = {}
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class Unavailable(Exception):
    """Java, Maven or the jars are missing."""


@functools.cache
def java_executable() -> str:
    """The path of a Java 17 or later; raises Unavailable when there is none."""
    candidates = [os.environ.get("JAVA_HOME", "") + "/bin/java", shutil.which("java") or ""]
    candidates += sorted(str(path) for path in pathlib.Path("/usr/lib/jvm").glob("*/bin/java"))
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK) and _java_major(candidate) >= 17:
            return candidate
    raise Unavailable("Java 17 or later was not found: install a JDK (Debian: apt-get install openjdk-17-jdk-headless)")


def _java_major(executable: str) -> int:
    text = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False).stderr
    version = text.split('"')[1] if '"' in text else "0"
    return int(version.split(".")[0] or 0)


def jars() -> str:
    """The class path of Apache Kafka's tools and server; fetched once with Maven."""
    given = os.environ.get("KT_KAFKA_CLASSPATH")
    if given:
        return given
    lib = CACHE / f"kafka-{VERSION}"
    if not (lib / ".complete").exists():
        lib.mkdir(parents=True, exist_ok=True)
        fetch_jars(_pom(), lib, f"Apache Kafka {VERSION}")
        (lib / ".complete").touch()
    return f"{lib}/*"


def fetch_jars(pom: str, directory: pathlib.Path, name: str, *options: str) -> None:
    """Copy the jars that a POM names into a directory, beside its `pom.xml`. Raises Unavailable, with the name of what
    was to be fetched, if Maven is missing or fails."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven was not found: install it (Debian: apt-get install maven)")
    (directory / "pom.xml").write_text(pom)
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={directory}", *options)
    environ = {"MAVEN_OPTS": " ".join(QUICK_START), **os.environ}
    command = [maven, "-q", "-B", "-f", str(directory / "pom.xml"), *copy]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"Maven could not fetch {name}: {(done.stdout + done.stderr)[-500:]}")


def _pom() -> str:
    wanted = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ]
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
        for g, a, v in wanted
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>'
        f"<artifactId>apache-kafka</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def compile_class(name: str, directory: pathlib.Path) -> str:
    """Compiles NAME.java of this folder and returns the directory of the class, for a class path."""
    source = pathlib.Path(__file__).with_name(f"{name}.java")
    compiler = [java_executable(), *QUICK_START, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    class_path = ":".join(str(jar) for jar in sorted(pathlib.Path(jars()).parent.glob("*.jar")))  # it expands no *
    arguments = ["-d", str(directory), "-cp", class_path, str(source)]
    done = subprocess.run([*compiler, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(directory)


def command(
    tool: str, *args: str, heap: str = "512m", jvm: Sequence[str] = QUICK_START, classes: Sequence[str] = ()
) -> list[str]:
    """The command line that runs one of Apache Kafka's tools without its shell script; `classes`: directories of
    further classes."""
    flags = [f"-Xmx{heap}", *jvm, "-Xshare:auto", *class_archive.flags(_archive())]
    return [java_executable(), *flags, "-cp", ":".join([jars(), *classes]), MAIN_CLASSES[tool], *args]


def _archive() -> pathlib.Path:
    return class_archive.archive_path(CACHE, java_executable(), jars())


def share_classes() -> None:
    """Makes the archive of classes that shortens the start of every JVM, and the server of tools, unless they are
    there."""
    class_archive.ensure(_archive(), java_executable(), jars(), _run_once)
    _server_class()


def _run_once(home: pathlib.Path) -> None:
    """A broker, and the tools that the tests use most, each in a JVM of its own."""
    cluster = ApacheKafka(home)
    cluster.start()
    try:
        for tool, *words in (
            ("topics", "--create", "--topic", "t"),
            ("console-producer", "--topic", "t"),
            ("console-consumer", "--topic", "t", "--from-beginning", "--max-messages", "1", "--group", "g"),
        ):
            line = command(tool, *words, "--bootstrap-server", cluster.bootstrap)
            subprocess.run(line, input=b"x\n", capture_output=True, timeout=PATIENCE_S, check=True)
    finally:
        cluster.stop()
        tool_server.close_idle()  # it formatted the node, without an archive


def run_tool(
    tool: str, *args: str, stdin: bytes = b"", timeout: float = PATIENCE_S, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a tool to its end and returns what it printed, as bytes: in a JVM that runs many, unless it needs a
    directory or a JVM of its own."""
    if cwd is None and tool not in UNSHARED:
        return tool_server.run(_server_command, [MAIN_CLASSES[tool], *args], stdin, timeout)
    return subprocess.run(command(tool, *args), input=stdin, capture_output=True, timeout=timeout, cwd=cwd, check=False)


def _server_command() -> list[str]:
    """The command line of the JVM that runs many tools."""
    tools = map(str, pathlib.Path(jars()).parent.glob("kafka-tools-*.jar"))
    *java, _ = command("topics", classes=[_server_class()])
    return [*java, "ToolServer", *tools]


@functools.cache
def _server_class() -> str:
    """The directory of its class, compiled once for this source."""
    source = pathlib.Path(__file__).with_name("ToolServer.java")
    target = CACHE / f"tool-server-{VERSION}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="tool-server-", dir=CACHE))
        compile_class("ToolServer", made)
        with contextlib.suppress(OSError):  # another process was first
            made.rename(target)
        shutil.rmtree(made, ignore_errors=True)
    return str(target)


class ApacheKafka:
    """KRaft nodes on loopback, one process each, in a directory of their own.

    All are brokers, the first `controllers` of them (None: all) controllers as well. Their JVMs are told to start
    quickly; `jvm=()` lets them compile for speed.
    """

    def __init__(
        self,
        home: pathlib.Path,
        nodes: int = 1,
        settings: dict[str, str] | None = None,
        jvm: Sequence[str] = QUICK_START,
        controllers: int | None = None,
        cluster_id: str = CLUSTER_ID,
        classes: Sequence[str] = (),
    ) -> None:
        self.home = home
        self._classes = classes
        self.cluster_id = cluster_id
        self._jvm = jvm
        self.settings = settings or {}
        self.settings_of: dict[int, dict[str, str]] = {}
        self.ports = [free_port() for _ in range(nodes)]
        self.controller_ports = [free_port() for _ in range(nodes if controllers is None else controllers)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """host:port of every node, joined by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def log_dir(self, node: int = 1) -> pathlib.Path:
        """The data directory of a node."""
        return self.home / f"node{node}" / "data"

    def _properties(self, node: int) -> pathlib.Path:
        factor = str(min(3, len(self.ports)))
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in enumerate(self.controller_ports, 1))
        roles, listeners = "broker", f"PLAINTEXT://127.0.0.1:{self.ports[node - 1]}"
        advertised = listeners
        if node <= len(self.controller_ports):
            roles = "broker,controller"
            listeners += f",CONTROLLER://127.0.0.1:{self.controller_ports[node - 1]}"
        settings = {
            "process.roles": roles,
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": advertised,
            "log.dirs": str(self.log_dir(node)),
            "offsets.topic.replication.factor": factor,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": factor,
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **WITHOUT_RETENTION,
            **self.settings,
            **self.settings_of.get(node, {}),
        }
        path = self.home / f"node{node}" / "server.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def format(self, node: int = 1) -> None:
        """Formats a node's data directory with the real storage tool; what it wrote for a node of this number serves
        all clusters of this id, for it depends on nothing else."""
        properties = self._properties(node)
        directory = self.log_dir(node)
        key = self.cluster_id, node
        if key not in _formatted:
            done = run_tool("storage", "format", "-t", self.cluster_id, "-c", str(properties))
            assert done.returncode == 0, done.stderr.decode()
            _formatted[key] = {path.name: path.read_bytes() for path in directory.iterdir()}
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in _formatted[key].items():
            (directory / name).write_bytes(content)

    def start(self, *, format_first: bool = True) -> None:
        """Starts every node and waits until all of them answer."""
        nodes = range(1, len(self.ports) + 1)
        if format_first:
            with futures.ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(self.format, nodes))
        for node in nodes:
            self.start_node(node, wait=False)
        for node in nodes:
            self.wait_for_node(node)

    def start_node(self, node: int = 1, *, wait: bool = True) -> None:
        """Starts one node on its directory as it is."""
        properties = self._properties(node)
        with (self.home / f"node{node}" / "server.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                command("server", str(properties), jvm=self._jvm, classes=self._classes),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.wait_for_node(node)

    def wait_for_node(self, node: int = 1, timeout: float = PATIENCE_S) -> None:
        """Waits until a node takes connections and knows its cluster."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.processes[node].poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.ports[node - 1]), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        log = (self.home / f"node{node}" / "server.log").read_text(errors="replace")
        raise AssertionError(f"Apache Kafka node {node} did not start: {log[-2000:]}")

    def kill(self, node: int = 1) -> None:
        """SIGKILL: the node gets no chance to close its log."""
        self.processes[node].kill()
        self.processes.pop(node).wait()

    def kill_all(self) -> None:
        """Kill every node that runs: nothing is read from them any more, and three that stop wait for each other."""
        for node in list(self.processes):
            self.kill(node)

    def stop_node(self, node: int = 1) -> None:
        """SIGTERM, as the stop script does, and waits for the end."""
        process = self.processes.pop(node)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Stops every node that runs."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for node in list(self.processes):
            self.stop_node(node)

    def tool(self, tool: str, *args: str, stdin: bytes = b"", timeout: float = PATIENCE_S) -> str:
        """Runs a tool against this cluster and returns its stdout; a failure is an assertion error."""
        done = run_tool(tool, *args, "--bootstrap-server", self.bootstrap, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()


if __name__ == "__main__":  # before the tests, whose time is limited
    with contextlib.suppress(Unavailable):
        share_classes()
