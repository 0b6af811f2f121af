"""Every command with --json against one embedded broker, and what needs more brokers against brokers that answer from
a script. What is printed is held against the schemas by test_json_schemas.py. UNREACHABLE and OTHERWISE have a command
line for each command without a broker, for test_script_contract.py.

The runs are in an order in which each finds what it needs. They go through the real main, in this process.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
import subprocess
import time
import uuid
from typing import Any

from support import recorded_segments, streams_story
from support.embedded import embedded_broker
from support.kt import Ran, patient_completion, run_kt
from support.live_groups import ConsumerMember, GroupClient, visit_share_group
from support.raw_transactions import RawProducer
from support.schema_registry import recorded
from support.schema_stories import Story
from support.scripted_broker import ScriptedBroker, partition
from support.scripted_cluster import ScriptedCluster

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.sandbox.run_files import RunFile

SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "transaction_partition_verification_enable": "false",
    "group_initial_rebalance_delay_ms": "0",
}
NOBODY = "127.0.0.1:1"
SERVER = ("--bootstrap-server", NOBODY)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

UNREACHABLE = {
    "topics": (*SERVER, "--list"),
    "console-producer": (*SERVER, "--topic", "t"),
    "console-consumer": (*SERVER, "--topic", "t", "--from-beginning", "--exit-at-end"),
    "consumer-groups": (*SERVER, "--list"),
    "groups": (*SERVER, "--list"),
    "share-groups": (*SERVER, "--list"),
    "streams-application-reset": (*SERVER, "--application-id", "words", "--dry-run"),
    "streams-groups": (*SERVER, "--list"),
    "transactions": (*SERVER, "list"),
    "copy": (*SERVER, "t", "u"),
    "redrive": (*SERVER, "t"),
    "backup": (*SERVER, "--to", "backup"),
    "restore": (*SERVER, "--from", "stored"),
    "migrate": (*SERVER, "--through", "through", "--to-bootstrap-server", NOBODY),
    "query": ("SELECT * FROM 'topic:t'", *SERVER),
    "get-offsets": SERVER,
    "delete-records": (*SERVER, "--offset-json-file", "records.json"),
    "reassign-partitions": (*SERVER, "--list"),
    "log-dirs": (*SERVER, "--describe"),
    "replica-verification": (*SERVER, "--exit-at-end"),
    "leader-election": (*SERVER, "--election-type", "preferred", "--all-topic-partitions"),
    "cluster": ("cluster-id", *SERVER),
    "broker-api-versions": SERVER,
    "metadata-quorum": (*SERVER, "describe", "--status"),
    "features": (*SERVER, "describe"),
    "producer-perf-test": (
        *SERVER, "--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1",
    ),
    "consumer-perf-test": (*SERVER, "--topic", "t", "--num-records", "1", "--timeout", "3000"),
    "console-share-consumer": (*SERVER, "--topic", "t"),
    "share-consumer-perf-test": (*SERVER, "--topic", "t", "--num-records", "1", "--timeout", "3000"),
    "verifiable-share-consumer": (*SERVER, "--topic", "t", "--group-id", "g", "--max-messages", "1"),
    "e2e-latency": (*SERVER, "--topic", "t", "--num-records", "1", "--producer-acks", "1", "--record-size", "1"),
    "verifiable-producer": (*SERVER, "--topic", "t", "--max-messages", "1"),
    "verifiable-consumer": (*SERVER, "--topic", "t", "--group-id", "g", "--max-messages", "1"),
    "configs": (*SERVER, "--describe", "--entity-type", "topics"),
    "count": ("topic:t", *SERVER),
    "top-keys": ("topic:t", *SERVER),
    "diff": ("topic:t", "topic:u", *SERVER),
    "topic-profile": ("topic:t", "--out", "page.html", *SERVER),
    "export": ("topic:t", "--to", "json:exported", *SERVER),
    "replay": ("topic:t", "--to", "topic:u", *SERVER),
    "acls": (*SERVER, "--list"),
    "apply": (*SERVER, "--from-cluster"),
    "client-metrics": (*SERVER, "--list"),
    "delegation-tokens": (*SERVER, "--describe", "--command-config", "empty.properties"),
    "monitor": SERVER,
    "why": SERVER,
    "pipeline": ("run", *SERVER, "--from", "topic:t", "--to", "console:"),
}  # fmt: skip
"""A command line for each command that fails when there is no broker."""

OTHERWISE = {
    "doctor": "says what is wrong with the address: findings (3), told on stdout",
    "completion": "never disturbs the shell: no names, and 0",
    "dump-log": "reads files",
    "check": "reads files",
    "retention-forecast": "reads files",
    "compact-forecast": "reads files",
    "metadata-shell": "reads files",
    "storage": "reads and writes files",
    "sandbox": "starts the broker of this machine",
    "server-start": "is the broker",
    "server-stop": "sends a signal to a process",
    "shims": "creates links in a directory",
    "profile": "reads and writes files",
    "help-json": "asks nobody",
    "undo": "reads the journal first, which is empty",
    "schemas": "asks a schema registry",
    "mcp": "waits for its client; its tools ask the cluster",
}
"""Commands that need no broker, and what they do instead."""


class JsonRuns:
    """Runs commands in a directory of their own and keeps what came of each: (command, arguments, run)."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.bootstrap = ""
        self.journal = "off"
        self.ran: list[tuple[str, tuple[str, ...], Ran]] = []

    def kt(
        self, command: str, *words: str, stdin: bytes = b"", status: int = 0, servers: bool = True, at: int = 0
    ) -> Ran:
        """Runs `kt COMMAND --bootstrap-server ... WORDS --json`; `status` is how it is to end, `at` how
        many of the words are in front of the address."""
        place = ("--bootstrap-server", self.bootstrap) if servers else ()
        environ = {"KT_HOME": str(self.directory / "home"), "HOME": str(self.directory)}
        environ["KT_JOURNAL"] = self.journal
        arguments = (command, *words[:at], *place, *words[at:], "--json")
        ran = run_kt(*arguments, stdin=stdin, cwd=self.directory, environ=environ)
        assert ran.status == status, (arguments, ran)
        self.ran.append((command, arguments, ran))
        return ran

    def file(self, name: str, value: object) -> str:
        """Writes a file of JSON, or of text."""
        text = value if isinstance(value, str) else json.dumps(value)
        (self.directory / name).write_text(text)
        return name

    def everything(self) -> None:
        """All runs."""
        self._without_a_broker()
        with embedded_broker(self.directory / "data", **SETTINGS) as self.bootstrap:
            self._topics_and_records()
            self._cluster()
            self._settings()
            self._undo()
            self._groups()
            self._share_groups()
            self._streams_groups()
            self._metadata_shell()
            self._transactions()
            self._measurements()
            self._endings()
        self._files()
        self._schemas()
        replicas = {"orders": [[1, 2], [2, 1], [1, 2]]}
        with ScriptedCluster(dict.fromkeys((1, 2, 3)), replicas).running() as cluster:
            self.bootstrap = cluster.bootstrap
            self._reassignments(cluster)
        self._differing_replicas()
        self._answers()
        self._processes()

    # -- without a broker --

    def _without_a_broker(self) -> None:
        self.kt("help-json", servers=False)
        self.kt("help-json", "topics", servers=False)
        for shell in ("bash", "zsh", "fish"):
            self.kt("completion", "--shell", shell, servers=False)
        self.kt("completion", "--profiles", servers=False)
        self.kt("completion", "--install", "--shell", "fish", servers=False)
        self.kt("completion", "--uninstall", servers=False)
        contexts = {"dev": {"brokers": ["a:1"], "kafkaVersion": "", "producer": {"partitioner": "hash"}}}
        self.kt("profile", "import", self.file("kafkactl.yml", {"contexts": contexts}), servers=False)
        self.kt("shims", "links", servers=False)
        self.kt("shims", "--remove", "links", servers=False)
        self.kt("sandbox", "status", servers=False, status=1)
        self.kt("server-stop", servers=False, status=1)
        properties = self.file(
            "server.properties",
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
            "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
            f"log.dirs={self.directory}/formatted\n",
        )
        self.kt("storage", "random-uuid", servers=False)
        self.kt("storage", "info", "--config", properties, servers=False, status=1)
        self.kt("storage", "format", "-c", properties, "-t", CLUSTER_ID, "--dry-run", servers=False)
        self.kt("storage", "format", "-c", properties, "-t", CLUSTER_ID, servers=False)
        self.kt("storage", "format", "-c", properties, "-t", CLUSTER_ID, servers=False, status=1)
        self.kt("storage", "info", "--config", properties, servers=False)
        self.kt("storage", "version-mapping", servers=False)
        self.kt("storage", "feature-dependencies", "--feature", "transaction.version=2", servers=False)

    def _schemas(self) -> None:
        with recorded("subjects") as registry:
            Story(registry.url, self.directory)  # writes the files of the schemas
            address = ("--schema-registry", registry.url)

            def kt(*words: str, status: int = 0) -> None:
                self.kt("schemas", *words, *address, servers=False, status=status)

            kt("list")
            kt("register", "orders-value", "--schema", "order.avsc", "--dry-run")
            kt("register", "orders-value", "--schema", "order.avsc")
            kt("set-compatibility", "orders-value", "--level", "backward")
            kt("compatibility", "orders-value")
            kt("check", "orders-value", "--schema", "other.avsc", status=3)
            kt("show", "orders-value:1")
            kt("versions", "baskets-value")
            kt("list")
            kt("delete", "tickets-value", "--dry-run")

    # -- against one broker --

    def _topics_and_records(self) -> None:
        kt = self.kt
        kt("topics", "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=90000000")
        kt("topics", "--create", "--topic", "orders", "--if-not-exists")
        kt("topics", "--create", "--topic", "next", "--dry-run")
        kt("topics", "--alter", "--topic", "orders", "--partitions", "9", "--dry-run")
        kt("topics", "--delete", "--topic", "orders", "--dry-run")
        kt("topics", "--create", "--topic", "orders", status=1)
        kt("topics", "--create", "--topic", "pay")
        kt("topics", "--alter", "--topic", "pay", "--partitions", "2")
        kt("topics", "--alter", "--topic", "pay", "--partitions", "2", status=1)
        records = [
            {"value": "a", "key": None, "partition": 0, "timestamp": 1_700_000_000_000, "headers": [["h", None]]},
            {"value": {"b64": "/w=="}, "key": "k", "partition": 0},
            {"value": None, "key": "k", "partition": 1, "timestamp": 1_700_000_000_000},  # so k has a value
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records).encode()
        kt("console-producer", "--topic", "orders", stdin=lines)
        kt("console-producer", "--topic", "orders", "--transactional-id", "loader", stdin=lines)
        kt("console-producer", "--topic", "orders", stdin=b'{"value": "x", "partition": 9}\n', status=1)
        kt("console-consumer", "--topic", "orders", "--from-beginning", "--exit-at-end", "--group", "shop")
        kt("console-consumer", "--topic", "ghost", "--exit-at-end", status=1)
        kt("console-consumer", "--topic", "orders", "--count", "--grep", "a")
        kt("count", "topic:orders")
        kt("count", "topic:orders", "--exact")
        kt("top-keys", "topic:orders")
        kt("topic-profile", "topic:orders", "--out", "orders.html")
        kt("diff", "topic:orders", "topic:orders", "--by", "multiset")
        kt("diff", "topic:orders", "topic:pay", "--by", "offset", status=3)
        kt("export", "topic:orders", "--to", "json:exported")
        kt("replay", "topic:orders", "--to", "topic:pay", "--dry-run")
        kt("topics", "--list")
        kt("topics", "--describe")
        kt("topics", "--describe", "--topic", "orders", "--topics-with-overrides")
        kt("topics", "--describe", "--topic", "ghost", status=1)
        kt("query", "SELECT * FROM orders")
        kt("query", "SELECT * FROM ghost", status=1)
        kt("query", "SELECT nothing FROM orders", status=2)
        kt("get-offsets")
        kt("get-offsets", "--time", "99999999999999")
        kt("get-offsets", "--topic", "ghost", status=1)
        asked = [{"topic": "orders", "partition": 0, "offset": 1}, {"topic": "ghost", "partition": 0, "offset": 1}]
        kt("delete-records", "--offset-json-file", self.file("d.json", {"partitions": asked}), "--dry-run", status=1)
        kt("delete-records", "--offset-json-file", "d.json", status=1)
        kt("replica-verification", "--exit-at-end", "--report-interval-ms", "-1")

    def _cluster(self) -> None:
        kt = self.kt
        kt("cluster", "cluster-id", at=1)
        kt("cluster", "list-endpoints", at=1)
        kt("cluster", "api-versions", at=1)
        kt("cluster", "unregister", "--id", "7", status=1, at=1)
        kt("cluster", "unregister", "--id", "1", "--dry-run", at=1)
        kt("broker-api-versions")
        kt("metadata-quorum", "describe", "--status")
        kt("metadata-quorum", "describe", "--replication")
        controller = self.file(
            "controller.properties",
            "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=localhost:9093\nlisteners=CONTROLLER://localhost:9093\n"
            f"log.dirs={self.directory}/formatted\nmetadata.log.dir={self.directory}/formatted\n",
        )
        kt("metadata-quorum", "--command-config", controller, "add-controller", "--dry-run")
        remove = ("remove-controller", "--controller-id", "3", "--controller-directory-id", CLUSTER_ID)
        kt("metadata-quorum", *remove, "--dry-run")
        kt("features", "describe")
        kt("features", "upgrade", "--feature", "kraft.version=9", "--dry-run", status=1)
        kt("features", "downgrade", "--feature", "transaction.version=1", "--dry-run")
        kt("features", "disable", "--feature", "share.version", "--dry-run")
        kt("features", "version-mapping", servers=False)
        kt("features", "feature-dependencies", "--feature", "transaction.version=2", servers=False)
        (log_dir,) = [json.loads(line)["log_dir"] for line in kt("log-dirs", "--describe").out.splitlines()]
        part = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [log_dir]}
        moves = self.file("moves.json", {"version": 1, "partitions": [part]})
        kt("reassign-partitions", "--execute", "--reassignment-json-file", moves)
        kt("reassign-partitions", "--verify", "--reassignment-json-file", moves)
        kt("reassign-partitions", "plan", "balance", "--by", "rate", "--sample", "10ms", "--disks", at=2)
        kt("log-dirs", "--describe", "--broker-list", "9", status=1)
        self._copies()
        self._backups()
        kt("log-dirs", "--sizes")
        kt("log-dirs", "--sizes", "--by", "topic")
        kt("leader-election", "--election-type", "preferred", "--all-topic-partitions")
        kt("leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "0")
        kt("leader-election", "--election-type", "unclean", "--topic", "ghost", "--partition", "0", status=1)
        kt("leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "0", "--dry-run")
        kt("doctor")
        self._snapshots()
        self.bootstrap, right = "127.0.0.1:1", self.bootstrap
        kt("doctor", status=3)
        self.bootstrap = right

    def _snapshots(self) -> None:
        kt = self.kt
        kt("monitor", "--once")
        kt("monitor", "--once", "--topic", "ghost", status=1)
        kt("monitor", "--fail-if", "brokers=1", status=3)
        kt("monitor", "--once", "--alert", "brokers=1", "--alert", "lag>1 on group=ghost", status=3)

    def _copies(self) -> None:
        kt = self.kt
        kt("copy", "orders", "orders-copy", "--create", "--dry-run")
        kt("copy", "orders", "orders-copy", "--create")
        kt("topics", "--delete", "--topic", "orders-copy")
        kt("redrive", "orders", "--to", "dead", "--dry-run", status=3)
        kt("redrive", "orders", status=3)
        kt("topics", "--create", "--topic", "back", "--partitions", "1")
        kt("redrive", "orders", "--to", "back")
        kt("topics", "--delete", "--topic", "back")

    def _backups(self) -> None:
        kt = self.kt
        kt("topics", "--create", "--topic", "kept", "--partitions", "1")
        kt("console-producer", "--topic", "kept", stdin=b'{"value": "a"}\n')
        kt(
            "consumer-groups", "--reset-offsets", "--group", "keeper", "--topic", "kept", "--to-offset", "0",
            "--execute", "--no-undo-file",
        )  # fmt: skip
        kt("backup", "--to", "stored", "--topic", "kept")
        kt("backup", "list", "stored", servers=False)
        kt("console-producer", "--topic", "kept", stdin=b'{"value": "b"}\n')
        kt("backup", "verify", "stored", "--against", self.bootstrap, servers=False, status=3)
        words = ("restore", "--from", "stored", "--rename", "kept=kept-again", "--acls", "--quotas")
        kt(*words, "--dry-run")
        kt(*words)
        kt("restore", "--from", "stored", status=1)
        (self.directory / "stored" / "logs" / "kept-0" / "00000000000000000000.log").write_bytes(b"")
        kt("backup", "verify", "stored", servers=False, status=3)
        kt("backup", "verify", "nothing", servers=False, status=1)
        move = ("migrate", "--through", "through", "--to-bootstrap-server", self.bootstrap, "--topic", "kept", "--cut")
        kt(*move, "--rename", "kept=kept-moved", "--dry-run", "--quotas")
        kt(*move, "--rename", "kept=kept-moved", "--acls", "--quotas")
        kt(*move, status=2)
        for topic in ("kept", "kept-again", "kept-moved"):
            kt("topics", "--delete", "--topic", topic)

    def _settings(self) -> None:
        kt = self.kt
        kt("configs", "--alter", "--topic", "orders", "--add-config", "retention.bytes=1000000")
        kt("configs", "--alter", "--user", "alice", "--add-config", "producer_byte_rate=1024")
        kt("configs", "--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[password=x]")
        kt("configs", "--alter", "--client-defaults", "--add-config", "request_percentage=50.5")
        kt("configs", "--describe", "--entity-type", "topics")
        kt("configs", "--describe", "--topic", "orders", "--all")
        kt("configs", "--describe", "--entity-type", "brokers", "--entity-default")
        kt("configs", "--describe", "--entity-type", "users")
        kt("configs", "--describe", "--entity-type", "clients")
        kt("configs", "--describe", "--topic", "ghost", status=1)
        kt("client-metrics", "--alter", "--name", "s", "--interval", "1000", "--dry-run")
        kt("client-metrics", "--alter", "--name", "s", "--interval", "1000")
        kt("client-metrics", "--list")
        kt("client-metrics", "--describe")
        kt("client-metrics", "--describe", "--name", "ghost")
        kt("client-metrics", "--delete", "--name", "s")
        add = ("--add-config", "retention.bytes=5")
        kt("configs", "--alter", "--topic", "orders", *add, "--dry-run")
        kt("configs", "--alter", "--topic", "orders", *add, "--undo-file", "undo.jsonl")
        kt("configs", "--from-file", "undo.jsonl", "--dry-run")
        kt("configs", "--from-file", "undo.jsonl")
        lines = [
            {"entity": {"topic": name}, "set": {"retention.ms": "7"}, "delete": []} for name in ("orders", "ghost")
        ]
        some = self.file("some.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        kt("configs", "--from-file", some, status=1)
        kt("configs", "--alter", "--topic", "ghost", "--add-config", "retention.ms=1", status=1)
        acl = ("--topic", "orders", "--allow-principal", "User:alice", "--operation", "Read")
        kt("acls", "--add", *acl)
        kt("acls", "--add", *acl)
        kt("acls", "--list")
        kt("acls", "--remove", *acl, stdin=b"n\n", status=1)
        kt("acls", "--remove", *acl, "--force")
        password = self.file("password", "open-sesame")
        state = self.file(
            "declared.toml",
            "topics.declared = {partitions = 1, replication = 1}\n"
            "topics.orders = {replication = 9}\n"
            "acls = [{principal = 'User:carol', topic = 'declared', operations = 'Read'}]\n"
            "quotas = [{user = 'carol', producer_byte_rate = 7}]\n"
            f"users.carol = {{SCRAM-SHA-256 = {{password-file = '{password}'}}}}\n",
        )
        kt("apply", state, "--check", status=3)
        kt("apply", state, status=1)
        kt("apply", "--from-cluster")
        kt("apply", state, "--prune", "topics,users", stdin=b"n\n", status=1)

    def _undo(self) -> None:
        kt = self.kt
        self.journal = "on"
        kt("configs", "--alter", "--topic", "orders", "--add-config", "flush.ms=7,flush.messages=3")
        kt("configs", "--alter", "--topic", "orders", "--add-config", "flush.ms=8")
        kt("configs", "--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[password=y]")
        kt("undo", "show", "3", servers=False)
        kt("undo", "1", "--dry-run", servers=False, status=1)
        kt("undo", "2", "--yes", servers=False)
        kt("undo", "1", "--yes", servers=False)
        kt("undo", "show", "1", servers=False)
        kt("undo", "list", servers=False)
        self.journal = "off"

    def _groups(self) -> None:
        kt, group = self.kt, ("--group", "shop")
        with GroupClient(self.bootstrap) as client:
            client.commit("gone", {("orders", 2): 0})
            client.commit("stuck", {("orders", 0): 0})
            kt("why", "group", "stuck", "--interval", "0.1", status=3)
            kt("why", "topic", "orders")
        with ConsumerMember(self.bootstrap, "app", "live", MEMBER_ID, ["pay"]) as member:
            kt("consumer-groups", "--list")
            kt("consumer-groups", "--describe", "--all-groups", "--lag-time")
            for what in ("--members", "--state"):
                kt("consumer-groups", "--describe", "--all-groups", what)
            kt("consumer-groups", "--describe", *group, "--watch", "1", "--fail-if", "lag>=0", status=3)
            kt("groups", "--list")
            kt("consumer-groups", "--delete", "--group", "live", status=1)
            kt("streams-application-reset", "--application-id", "live", "--force", "--dry-run")
            member.leave()
            kt("groups", "timeline", "live", at=1)
            kt("groups", "timeline", "absent", at=1, status=1)
        reset = ("--reset-offsets", "--topic", "orders", "--to-earliest")
        kt("consumer-groups", *group, *reset, "--dry-run")
        kt("consumer-groups", *group, *reset, "--execute")
        kt(
            "consumer-groups",
            *group,
            "--delete-offsets",
            "--topic",
            "orders",
            "--topic",
            "ghost",
            "--dry-run",
            status=1,
        )
        kt("consumer-groups", *group, "--delete-offsets", "--topic", "orders", "--topic", "ghost", status=1)
        kt("consumer-groups", "--delete", "--group", "gone", "--group", "nobody", "--dry-run", status=1)
        kt("consumer-groups", "--delete", "--group", "gone", "--group", "nobody", status=1)
        kt("groups", "timeline", "gone", at=1)
        kt("consumer-groups", "--describe", "--group", "nobody", status=1)
        kt("consumer-groups", "--validate-regex", "orders.*")
        kt("consumer-groups", "--validate-regex", "[", status=3)

    def _share_groups(self) -> None:
        kt, group = self.kt, ("--group", "shares")
        visit_share_group(self.bootstrap, "shares", MEMBER_ID, "orders")
        kt("share-groups", "--list")
        for what in ("--offsets", "--members", "--state"):
            kt("share-groups", "--describe", *group, what)
        reset = ("--reset-offsets", "--topic", "orders", "--to-earliest")
        kt("share-groups", *group, *reset, "--dry-run")
        kt("share-groups", *group, *reset, "--execute", "--undo-file", "shares.csv")
        kt("share-groups", "--describe", *group)
        kt("share-groups", *group, "--delete-offsets", "--topic", "orders", "--dry-run")
        kt("share-groups", *group, "--delete-offsets", "--topic", "orders")
        kt("share-groups", "--describe", "--group", "nobody", status=1)
        kt("share-groups", "--delete", *group, "--dry-run")
        kt("share-groups", "--delete", *group)

    def _metadata_shell(self) -> None:
        directory = recorded_segments.log_directory("cluster-metadata")

        def kt(*words: str, stdin: bytes = b"", status: int = 0) -> None:
            self.kt("metadata-shell", "-d", str(directory), *words, stdin=stdin, status=status, servers=False)

        kt("ls", "/image", "/nothing", status=1)
        kt("cat", "/local/version")
        kt("tree", "/image/features")
        kt("find", "/image/topics/byName/trio")
        kt(stdin=b"pwd\nhelp\nman ls\nhistory\n")

    def _streams_groups(self) -> None:
        kt, group = self.kt, ("--group", "words")
        streams_story.visit(self.bootstrap, "words", "orders")
        kt("streams-groups", "--list")
        for what in ("--offsets", "--members", "--state"):
            kt("streams-groups", "--describe", *group, what)
        streams_story.leave(self.bootstrap, "words")
        reset = ("--reset-offsets", "--all-input-topics", "--to-earliest")
        kt("streams-groups", *group, *reset, "--dry-run")
        kt("streams-groups", *group, *reset, "--execute", "--undo-file", "words.csv")
        kt("streams-groups", *group, "--delete-offsets", "--all-input-topics", "--dry-run")
        kt("streams-groups", *group, "--delete-offsets", "--input-topic", "orders", "--input-topic", "ghost", status=1)
        kt("streams-groups", "--describe", "--group", "nobody", status=1)
        kt("streams-groups", "--delete", *group, "--dry-run")
        kt("streams-groups", "--delete", *group)
        kt("topics", "--create", "--topic", "words-counts-changelog")
        application = ("streams-application-reset", "--application-id", "words", "--input-topics", "orders")
        kt(*application, "--input-topics", "ghost", "--dry-run", status=1)
        kt(*application)

    def _transactions(self) -> None:
        kt, now_ms = self.kt, time.time_ns() // 1_000_000
        with RawProducer(self.bootstrap, "known") as known, RawProducer(self.bootstrap, "lost") as lost:
            known.send("pay", 0, [now_ms])
            lost.send_without_coordinator("pay", 1, [now_ms - 3_600_000])
            kt("transactions", "list")
            kt("transactions", "describe", "--transactional-id", "known")
            kt("transactions", "describe", "--transactional-id", "lost")
            kt("transactions", "describe", "--transactional-id", "nobody", status=1)
            kt("transactions", "describe-producers", "--topic", "pay", "--partition", "0")
            kt("transactions", "find-hanging", "--topic", "pay", status=3)
            kt("transactions", "abort", "--topic", "pay", "--partition", "1", "--start-offset", "0")
            kt("transactions", "forceTerminateTransaction", "--transactionalId", "known")
        shown = ("--from-beginning", "--exit-at-end", "--formatter")
        kt("console-consumer", "--topic", "__transaction_state", *shown, "transaction-log")
        kt("console-consumer", "--topic", "__consumer_offsets", *shown, "offsets")

    def _measurements(self) -> None:
        kt = self.kt
        size = ("--record-size", "10", "--throughput", "-1", "--print-metrics", "--reporting-interval", "1")
        kt("producer-perf-test", "--topic", "pay", "--num-records", "3000", "--warmup-records", "10", *size)
        detailed = ("--show-detailed-stats", "--reporting-interval", "1", "--print-metrics", "--timeout", "2000")
        kt("consumer-perf-test", "--topic", "pay", "--num-records", "3000", *detailed)
        kt("e2e-latency", "--topic", "pay", "--num-records", "2", "--producer-acks", "1", "--record-size", "5")
        kt("verifiable-producer", "--topic", "pay", "--max-messages", "2")
        kt("topics", "--create", "--topic", "tiny", "--config", "max.message.bytes=1")
        kt("verifiable-producer", "--topic", "tiny", "--max-messages", "1", status=1)
        kt("verifiable-consumer", "--topic", "pay", "--group-id", "verified", "--max-messages", "2", "--verbose")
        earliest = ("--offset-reset-strategy", "earliest", "--max-messages", "2")
        kt("verifiable-share-consumer", "--topic", "pay", "--group-id", "shared", *earliest, "--verbose")
        begin = ("--add-config", "share.auto.offset.reset=earliest")
        for group in ("shown", "perf-share-consumer"):
            kt("configs", "--alter", "--entity-type", "groups", "--entity-name", group, *begin)
        kt("console-share-consumer", "--topic", "pay", "--group", "shown", "--max-messages", "1")
        each = ("--show-detailed-stats", "--reporting-interval", "1", "--show-consumer-stats", "--print-metrics")
        kt("share-consumer-perf-test", "--topic", "pay", "--num-records", "3000", *each)

    def _endings(self) -> None:
        self.kt("topics", "--delete", "--topic", "pay")
        self.kt("topics", "--delete", "--topic", "ghost", status=1)
        with patient_completion():
            self.kt("completion", "--topics")

    # -- files --

    def _files(self) -> None:
        self._dump("plain-java", "00000000000000000000.log", "--print-data-log")
        self._dump("message-set-v1-gzip", "00000000000000000000.log", "--deep-iteration")
        self._dump("message-set-v0-none", "00000000000000000000.log", "--print-data-log")
        self._dump("txn-java", "00000000000000000033.snapshot,00000000000000000000.txnindex")
        self._dump("txn-java", "00000000000000000000.log", "--deep-iteration")
        self._dump("plain-java", "00000000000000000000.index,00000000000000000000.timeindex")
        self._dump("plain-java", "00000000000000000000.index", "--index-sanity-check")
        self._dump("damaged-index-empty", "00000000000000000152.index")
        self._dump("damaged-index-wrong-offset", "00000000000000000152.index", status=3)
        self._dump("damaged-text-tail", "00000000000000000000.log", status=3)
        self._dump("cluster-metadata", "00000000000000000000.log", "--cluster-metadata-decoder")
        self._dump("plain-java", "00000000000000000009.log", status=1)
        shutil.copytree(recorded_segments.log_directory("damaged-zero-middle"), self.directory / "cold-0")
        self.kt("check", "cold-0", "--salvage", "sound", servers=False, status=3)
        for command in ("retention-forecast", "compact-forecast"):
            self.kt(command, str(recorded_segments.log_directory("multi-segment")), servers=False)
            self.kt(command, "cold-0", servers=False, status=3)
        self.kt("topic-profile", "log:cold-0", "--out", "cold.html", servers=False, status=3)
        (checkpoint,) = (self.directory / "data").glob("bootstrap.checkpoint")
        self.kt("dump-log", "--files", str(checkpoint), "--cluster-metadata-decoder", servers=False)

    def _dump(self, recording: str, names: str, *words: str, status: int = 0) -> None:
        place = recorded_segments.log_directory(recording)
        files = ",".join(str(place / name) for name in names.split(","))
        self.kt("dump-log", "--files", files, *words, servers=False, status=status)

    # -- against several brokers, which answer from a script --

    def _reassignments(self, cluster: ScriptedCluster) -> None:
        def kt(*words: str, status: int = 0, at: int = 0) -> None:
            self.kt("reassign-partitions", *words, status=status, at=at)

        plan = ("--reassignment-json-file", self._plan([1, 3], [3, 1]))
        topics = self.file("topics.json", {"version": 1, "topics": [{"topic": "orders"}]})
        kt("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
        kt("plan", "drain", "--brokers", "2", at=2)
        cluster.out_of_sync["orders", 0] = {1, 2}
        kt("plan", "drain", "--brokers", "2", at=2, status=1)
        cluster.out_of_sync.clear()
        kt("plan", "set-rf", "--replication-factor", "9", at=2, status=1)
        kt("plan", "balance", "--by", "bytes", "--max-move", "0", at=2)
        cluster.steps = 99
        kt("--execute", *plan, "--dry-run")
        kt("--execute", *plan, "--throttle", "1000")
        kt("--cancel", *plan, "--dry-run")
        kt("--execute", *plan, status=1)
        kt("--list")
        kt("--verify", *plan, status=3)
        kt("--cancel", *plan)
        cluster.steps = 1
        run = ("run", "--reassignment-json-file", self._plan([1, 3], [3, 1]), "--interval", "0.01", "--no-undo-file")
        cluster.refused["orders", 1] = (39, "No.")
        kt(*run, "--throttle", "1k", "--min-throttle", "1k", at=1, status=1)
        kt(*run, "--dry-run", at=1)
        part = {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data2"]}
        located = self.file("located.json", {"version": 1, "partitions": [part]})
        kt("run", "--reassignment-json-file", located, "--dry-run", at=1)
        cluster.out_of_sync["orders", 2] = {2}
        cluster.refused.clear()
        cluster.steps = 10**6
        self._plan([1, 2], [2, 3])
        slow = ("--throttle", "1k", "--min-throttle", "1k", "--max-throttle", "3k")
        kt(*run, *slow, "--timeout", "0.3", at=1, status=1)

    def _plan(self, *placement: list[int]) -> str:
        parts = [{"topic": "orders", "partition": number, "replicas": ids} for number, ids in enumerate(placement)]
        return self.file("plan.json", {"version": 1, "partitions": parts})

    def _differing_replicas(self) -> None:
        first, second = _Replica(b"one"), _Replica(b"other")
        first.broker.nodes = second.broker.nodes = {1: first.broker.port, 2: second.broker.port}
        self.bootstrap = first.broker.bootstrap
        with first.broker.in_background(), second.broker.in_background():
            self.kt("replica-verification", "--exit-at-end", status=3)

    def _answers(self) -> None:
        later = 1 << 42
        moment = {"issue_timestamp": 1, "expiry_timestamp": later, "max_timestamp": later}
        owner = {"principal_type": "User", "principal_name": "alice", "token_requester_principal_type": "User"}
        token = {"token_id": "t", "hmac": b"mac", **owner, "token_requester_principal_name": "bob"}
        renewer = {"principal_type": "User", "principal_name": "carol"}
        answers = {
            ApiKey.CREATE_DELEGATION_TOKEN: {**token, **{f"{key}_ms": value for key, value in moment.items()}},
            ApiKey.DESCRIBE_DELEGATION_TOKEN: {"tokens": [{**token, **moment, "renewers": [renewer]}]},
            ApiKey.RENEW_DELEGATION_TOKEN: {"expiry_timestamp_ms": 5},
            ApiKey.EXPIRE_DELEGATION_TOKEN: {"expiry_timestamp_ms": 5},
            ApiKey.UNREGISTER_BROKER: {},
        }
        broker = ScriptedBroker({key: lambda *_, told=told: told for key, told in answers.items()})
        self.bootstrap, none = broker.bootstrap, ("--command-config", self.file("none.properties", ""))
        with broker.in_background():
            self.kt("cluster", "unregister", "--id", "7", at=1)
            for more in ((), ("--dry-run",)):
                self.kt("delegation-tokens", *none, "--create", "--max-life-time-period", "-1", *more)
                self.kt("delegation-tokens", *none, "--renew", "--renew-time-period", "-1", "--hmac", "bWFj", *more)
                self.kt("delegation-tokens", *none, "--expire", "--expiry-time-period", "-1", "--hmac", "bWFj", *more)
            self.kt("delegation-tokens", *none, "--describe")

    def _processes(self) -> None:
        self.kt("sandbox", "start", servers=False)
        self.kt("sandbox", "fault", "add", "drop", "--api", "Fetch", "--for", "1h", servers=False)
        self.kt("sandbox", "fault", "add", "error", "--api", "Produce", "--error", "UNKNOWN_TOPIC_ID", servers=False)
        self.kt("sandbox", "fault", "list", servers=False)
        self.kt("sandbox", "fault", "remove", "1", servers=False)
        self.kt("sandbox", "fault", "remove", "--all", servers=False)
        self.kt("sandbox", "stop", servers=False)
        quick = ("--set", "broker.session.timeout.ms=2000")
        self.kt("sandbox", "start", "--nodes", "3", "--port", "0", *quick, servers=False)
        self.kt("sandbox", "status", servers=False)
        self.kt("sandbox", "kill", "2", servers=False)
        self.kt("sandbox", "stop", servers=False)
        place = self.directory / "home" / "servers" / "1.json"
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            told = RunFile(str(place))
            told.write({"pid": sleeper.pid, "node_id": 1, "bootstrap": "localhost:9092", "directory": "data"})
            self.kt("server-stop", servers=False)
            assert sleeper.wait(10) == -signal.SIGTERM
            told.remove()


class _Replica:
    """A broker with a log of one batch."""

    def __init__(self, value: bytes) -> None:
        builder = BatchBuilder(1 << 10)
        builder.append(1, None, value)
        self._log = bytes(builder.close())
        answers = {ApiKey.FETCH: self._fetch, ApiKey.LIST_OFFSETS: self._offsets}
        answers[ApiKey.DESCRIBE_CONFIGS] = lambda *_: {"results": [{"resource_type": 2, "resource_name": "orders"}]}
        self.broker = ScriptedBroker(answers, {ApiKey.DESCRIBE_TOPIC_PARTITIONS: (9, 9)})
        part = {**partition(0), "replica_nodes": (1, 2), "isr_nodes": (1, 2)}
        self.broker.topics = [{"name": "orders", "topic_id": uuid.UUID(int=1), "partitions": [part]}]

    def _fetch(self, header: Any, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        is_new = topic.partitions[0].fetch_offset == 0
        part = {"partition_index": 0, "high_watermark": 1, "records": self._log if is_new else b""}
        return {"responses": [{"topic_id": topic.topic_id, "partitions": [part]}]}

    def _offsets(self, header: Any, request: Any) -> dict[str, Any]:
        asked = request.topics[0].partitions[0].timestamp
        offset = 0 if int(asked.timestamp() if hasattr(asked, "timestamp") else asked) == -2 else 1
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": offset}]}]}
