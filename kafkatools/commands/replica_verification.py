"""kt replica-verification: compare the records of replicas (kafka-replica-verification.sh, ReplicaVerificationTool).

As Kafka's tool, the command runs until it is stopped, or until replicas have different offsets. With --exit-at-end it
ends at the end offsets that the partitions had at its start. Differences mean exit status 3, also after Ctrl-C.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, TopicFilter, command_config, java_int, java_long
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.replicas.verification import Difference, ReplicaVerifier, Subject

TopicPartition = tuple[str, int]
_LATEST, _EARLIEST = -1, -2
_ADDRESS = re.compile(r"\[?[^\s,\]]+\]?:[0-9]+")
_PATIENCE_MS = 30_000


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt replica-verification. Raises UsageError, CommandError or KafkaError."""
    takes = _topic_filter(args.topics_include)
    given = args.bootstrap_server
    if given is not None and not all(_ADDRESS.fullmatch(one.strip()) for one in given.split(",")):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092")
    with connect_admin(console, args) as admin:
        verifier, unknown = _verifier(admin, args, takes)
        return _Run(console, args, verifier, unknown).until_the_end()


def _topic_filter(regex: str) -> TopicFilter:
    try:
        return TopicFilter(regex)
    except ValueError:
        raise UsageError(f"{regex} is an invalid regex") from None


def _verifier(
    admin: AdminClient, args: Args, takes: TopicFilter
) -> tuple[ReplicaVerifier, dict[TopicPartition, KafkaError]]:
    """The partitions of the topics chosen, with where to begin; and those whose leader did not tell that.

    Raises KafkaError or CommandError, also when no leader tells.
    """
    from kafkatools.core.admin.topics import describe_topics, list_topics
    from kafkatools.core.java.hash_order import hash_order
    from kafkatools.core.java.hashes import partition_hash
    from kafkatools.tools.replicas.verification import ReplicaVerifier

    names = [topic.name for topic in list_topics(admin) if takes.takes(topic.name)]
    if not names:
        raise CommandError(
            "No topics found. [topics-include] if specified, is either filtering out all topics or there is no topic."
        )
    described = describe_topics(admin, names)
    for one in described.values():
        if one.error is not None:
            raise one.error
    found = {(name, part.partition): part.replicas for name, one in described.items() for part in one.partitions}
    replicas = {key: found[key] for key in hash_order(found, hash_of=partition_hash)}
    time = _EARLIEST if args.exit_at_end and not args.given("time") else args.time
    unknown: dict[TopicPartition, KafkaError] = {}
    ends = _offsets(admin, replicas, _LATEST, unknown) if args.exit_at_end or time >= 0 else None
    offsets = _offsets(admin, replicas if ends is None else ends, time, unknown)
    if ends is not None:
        offsets = {key: ends[key] if offset < 0 else offset for key, offset in offsets.items()}
    if unknown and not offsets:
        (topic, partition), error = next(iter(unknown.items()))
        raise CommandError(f"partition {topic}-{partition}: {error}")
    verifier = ReplicaVerifier(
        admin,
        {key: nodes for key, nodes in replicas.items() if key in offsets},
        _subjects(admin, {name: topic.topic_id for name, topic in described.items()}),
        offsets,
        ends if args.exit_at_end else None,
        fetch_size=args.fetch_size,
        max_wait_ms=args.max_wait_ms,
        patience_ms=min(_PATIENCE_MS, admin.config.request_timeout_ms) if args.exit_at_end else None,
    )
    return verifier, unknown


def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], time: int, unknown: dict[TopicPartition, KafkaError]
) -> dict[TopicPartition, int]:
    """Offsets of partitions; why there is none goes to `unknown`."""
    from kafkatools.core.admin.offsets import list_offsets

    found = list_offsets(admin, dict.fromkeys(partitions, time))
    unknown.update({key: one.error for key, one in found.items() if one.error is not None})
    return {key: one.offset for key, one in found.items() if one.error is None}


def _subjects(admin: AdminClient, topic_ids: dict[str, str | None]) -> dict[str, Subject]:
    """Which of the topics are compacted; one whose settings may not be read counts as one that is not."""
    from kafkatools.core.admin.configs import TOPIC, describe_configs
    from kafkatools.tools.replicas.verification import Subject

    found = describe_configs(admin, [(TOPIC, name) for name in topic_ids], names=["cleanup.policy"])
    compacted = {
        name
        for (_, name), one in found.items()
        if one.error is None and any("compact" in (entry.value or "") for entry in one.entries)
    }
    return {name: Subject(topic_id, name in compacted) for name, topic_id in topic_ids.items()}


class _Run:
    """One run of kt replica-verification: rounds of the verifier and their output."""

    def __init__(
        self, console: Console, args: Args, verifier: ReplicaVerifier, unknown: dict[TopicPartition, KafkaError]
    ) -> None:
        self._console = console
        self._args = args
        self._verifier = verifier
        self._unknown = unknown
        self._count = len(verifier.offsets) + len(unknown)
        self._has_findings = False
        self._last_report_ms = console.clock.now_ms()
        self._told: dict[tuple[str, int, int], str] = {}

    def until_the_end(self) -> ExitStatus:
        """Run rounds until the end. Returns FINDINGS if replicas differ; raises KeyboardInterrupt after Ctrl-C without
        one."""
        try:
            if not self._args.exit_at_end:
                return self._rounds()
            with self._console.progress("Comparing partitions", self._count, prints=True) as progress:
                progress.measure = self._done
                return self._rounds()
        except KeyboardInterrupt:
            if not self._has_findings:
                raise
            return ExitStatus.FINDINGS

    def _rounds(self) -> ExitStatus:
        self._say_started()
        for (topic, partition), error in self._unknown.items():
            self._console.error(f"partition {topic}-{partition}: {error}", error.name, topic=topic, partition=partition)
        clock = self._console.clock
        last_progress_ms = clock.now_ms()
        while self._verifier.remaining():
            found = self._verifier.run_once()
            for difference in found.differences:
                self._has_findings = True
                self._say_difference(difference)
            self._say_errors(found.errors)
            now_ms = clock.now_ms()
            if now_ms - self._last_report_ms > self._args.report_interval_ms:
                self._report()
                self._last_report_ms = now_ms
            self._console.flush()
            last_progress_ms = now_ms if found.has_progress else last_progress_ms
            if self._args.exit_at_end:
                if now_ms - last_progress_ms > _PATIENCE_MS:
                    break
            elif any(one.kind in ("offset", "damaged") for one in found.differences):
                return ExitStatus.FINDINGS
            if found.errors:
                clock.sleep_ms(100)
        return self._end()

    def _end(self) -> ExitStatus:
        """Print the summary of --exit-at-end and return the exit status."""
        done = self._done()
        left = self._verifier.remaining()
        if self._args.json:
            row = {"event": "end", "partitions": self._count, "complete": done}
            self._console.print_json({"time": self._console.clock.wall_ms(), **row})
        else:
            self._console.error(f"complete: {done}/{self._count} partitions")
            for topic, partition in left:
                offset = self._verifier.offsets[topic, partition]
                self._console.error(f"partition {topic}-{partition} was compared up to offset {offset} only")
            for (topic, partition), nodes in self._verifier.left_out.items():
                numbers = ", ".join(map(str, nodes))
                self._console.error(f"partition {topic}-{partition} was compared without replica {numbers}")
        if self._has_findings:
            return ExitStatus.FINDINGS
        return ExitStatus.FAILED if left or done < self._count else ExitStatus.OK

    def _done(self) -> int:
        """Return the number of partitions that were compared to their end."""
        return sum(self._verifier.is_done(key) for key in self._verifier.offsets)

    def _moment(self) -> str:
        """Return the current local time in the format of Kafka's tool."""
        moment = datetime.fromtimestamp(self._console.clock.wall_ms() / 1000).astimezone()
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"

    def _print(self, text: str, row: dict[str, object]) -> None:
        """Print a line after the current time, or with --json the row."""
        self._console.print(f"{self._moment()}: {text}", {"time": self._console.clock.wall_ms(), **row})

    def _say_started(self) -> None:
        self._print("verification process is started", {"event": "start", "partitions": self._count})
        self._console.flush()

    def _report(self) -> None:
        lag = self._verifier.max_lag()
        if lag is None:
            return
        self._print(
            f"max lag is {lag.lag} for partition {lag.topic}-{lag.partition} at offset {lag.offset} among "
            f"{self._count} partitions",
            {"event": "report", "partitions": self._count, "max_lag": lag._asdict()},
        )

    def _say_difference(self, one: Difference) -> None:
        where = f"partition {one.topic}-{one.partition}"
        if one.kind == "offset":
            text = (
                f"{where}: replica {one.replica}'s offset {one.value} doesn't match replica {one.other}'s offset "
                f"{one.other_value}"
            )
        elif one.kind == "checksum":
            text = (
                f"{where} has unmatched checksum at offset {one.offset}; replica {one.replica}'s checksum {one.value}; "
                f"replica {one.other}'s checksum {one.other_value}"
            )
        elif one.kind == "content":
            text = (
                f"{where} has unmatched content at offset {one.offset}; replica {one.replica} and replica {one.other}"
            )
        else:
            text = f"{where}: replica {one.replica} cannot be read at offset {one.offset}: {one.reason}"
        self._print(text, {"event": "difference", **_difference_json(one)})

    def _say_errors(self, errors: dict[tuple[str, int, int], KafkaError]) -> None:
        """Print each new fetch error. OFFSET_OUT_OF_RANGE is not printed: the replica is only behind."""
        for (topic, partition, node), error in errors.items():
            text = str(error)
            if self._told.get((topic, partition, node)) == text or error.name == "OFFSET_OUT_OF_RANGE":
                continue
            self._told[topic, partition, node] = text
            place = {"topic": topic, "partition": partition, "replica": node}
            self._console.error(f"partition {topic}-{partition} of replica {node}: {text}", error.name, **place)


def _difference_json(one: Difference) -> dict[str, object]:
    replicas: list[dict[str, object]] = [{"id": one.replica}]
    if one.other >= 0:
        replicas.append({"id": one.other})
    if one.kind in ("offset", "checksum"):
        for replica, value in zip(replicas, (one.value, one.other_value), strict=True):
            replica[one.kind] = value
    return {
        "kind": one.kind,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "replicas": replicas,
        "reason": one.reason or None,
    }


COMMAND = Command(
    "replica-verification",
    "Compare the records of the replicas of partitions.",
    options=(
        BOOTSTRAP_SERVER._replace(aliases=("--broker-list",)),
        Option("--topics-include", "Regular expression for topic names.", value="REGEX", default=".*"),
        Option(
            "--time",
            "Where to start: -1 the latest offset, -2 the earliest, or a timestamp in ms. Default with "
            "--exit-at-end: the earliest.",
            value="TIME",
            type=java_long,
            default=_LATEST,
        ),
        Option(
            "--fetch-size",
            "Maximum bytes of a partition in one fetch response.",
            value="BYTES",
            type=java_int,
            default=1048576,
        ),
        Option(
            "--max-wait-ms",
            "Longest time in ms that a fetch waits for records.",
            value="MS",
            type=java_int,
            default=1000,
        ),
        Option("--report-interval-ms", "Time between two reports in ms.", value="MS", type=java_long, default=30000),
        Option("--exit-at-end", "Exit at the end offsets that the partitions have at the start.", ours=True),
        command_config()._replace(ours=True),
    ),
    run=run,
    missing_bootstrap='Missing required argument "[broker-list]"',
    examples=(
        "kt replica-verification --exit-at-end",
        "kt replica-verification --topics-include 'orders.*' --report-interval-ms 5000",
    ),
)
