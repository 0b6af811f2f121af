"""kt replica-verification: compare the records of replicas (kafka-replica-verification.sh, ReplicaVerificationTool).

As Kafka's tool, the command runs until it is stopped, or until replicas have different offsets. With --exit-at-end it
ends at the end offsets that the partitions had at its start. Differences mean exit status 3, also after Ctrl-C.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, TopicFilter, command_config, java_int, java_long
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.replicas.verification import Difference, ReplicaVerifier

TopicPartition = tuple[str, int]
_LATEST = -1
_ADDRESS = re.compile(r"\[?[^\s,\]]+\]?:[0-9]+")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt replica-verification. Returns FINDINGS if replicas differ, FAILED if a partition was not compared to its
    end. Raises UsageError, CommandError or KafkaError."""
    from kafkatools.core.admin.offsets import EARLIEST
    from kafkatools.tools.replicas.preparation import prepare

    try:
        topics = TopicFilter(args.topics_include)
    except ValueError:
        raise UsageError(f"{args.topics_include} is an invalid regex") from None
    servers = args.bootstrap_server
    if servers is not None and not all(_ADDRESS.fullmatch(address.strip()) for address in servers.split(",")):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092")
    time = EARLIEST if args.exit_at_end and not args.has_option("time") else args.time
    with connect_admin(console, args) as admin:
        verifier, unknown = prepare(
            admin,
            topics.takes,
            time,
            stops_at_end=args.exit_at_end,
            fetch_size=args.fetch_size,
            max_wait_ms=args.max_wait_ms,
        )
        return _Run(console, args, verifier, unknown).until_the_end()


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
        self._reported: dict[tuple[str, int, int], str] = {}

    def until_the_end(self) -> ExitStatus:
        """Run rounds until the end. Returns FINDINGS if replicas differ, else FAILED if a partition was not compared to
        its end. Without differences Ctrl-C raises KeyboardInterrupt."""
        try:
            if not self._args.exit_at_end:
                return self._rounds()
            measure = self._complete_count
            with self._console.progress("Comparing partitions", self._count, measure=measure, prints=True):
                return self._rounds()
        except KeyboardInterrupt:
            if not self._has_findings:
                raise
            return ExitStatus.FINDINGS

    def _rounds(self) -> ExitStatus:
        from kafkatools.tools.replicas.preparation import PATIENCE_MS

        self._print("verification process is started", {"event": "start", "partitions": self._count})
        self._console.flush()
        for (topic, partition), error in self._unknown.items():
            self._console.error(f"partition {topic}-{partition}: {error}", error.name, topic=topic, partition=partition)
        clock = self._console.clock
        last_progress_ms = clock.now_ms()
        while self._verifier.remaining():
            comparison = self._verifier.run_once()
            for difference in comparison.differences:
                self._has_findings = True
                self._report_difference(difference)
            self._report_errors(comparison.errors)
            now_ms = clock.now_ms()
            if now_ms - self._last_report_ms > self._args.report_interval_ms:
                self._report()
                self._last_report_ms = now_ms
            self._console.flush()
            last_progress_ms = now_ms if comparison.has_progress else last_progress_ms
            if self._args.exit_at_end:
                if now_ms - last_progress_ms > PATIENCE_MS:
                    break
            elif any(difference.kind in ("offset", "damaged") for difference in comparison.differences):
                return ExitStatus.FINDINGS
            if comparison.errors:
                clock.sleep_ms(100)
        return self._end()

    def _end(self) -> ExitStatus:
        complete_count = self._complete_count()
        remaining = self._verifier.remaining()
        if self._args.json:
            row = {"event": "end", "partitions": self._count, "complete": complete_count}
            self._console.print_json({"time": self._console.clock.wall_ms(), **row})
        else:
            self._console.error(f"complete: {complete_count}/{self._count} partitions")
            for topic, partition in remaining:
                offset = self._verifier.offsets[topic, partition]
                self._console.error(f"partition {topic}-{partition} was compared up to offset {offset} only")
            for (topic, partition), nodes in self._verifier.left_out.items():
                numbers = ", ".join(map(str, nodes))
                self._console.error(f"partition {topic}-{partition} was compared without replica {numbers}")
        if self._has_findings:
            return ExitStatus.FINDINGS
        return ExitStatus.FAILED if remaining or complete_count < self._count else ExitStatus.OK

    def _complete_count(self) -> int:
        """Return the number of partitions that were compared to their end."""
        return sum(self._verifier.is_done(key) for key in self._verifier.offsets)

    def _moment(self) -> str:
        """Return the current local time in the format of Kafka's tool."""
        moment = datetime.fromtimestamp(self._console.clock.wall_ms() / 1000).astimezone()
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"

    def _print(self, text: str, row: dict[str, object]) -> None:
        self._console.print(f"{self._moment()}: {text}", {"time": self._console.clock.wall_ms(), **row})

    def _report(self) -> None:
        lag = self._verifier.max_lag()
        if lag is None:
            return
        self._print(
            f"max lag is {lag.lag} for partition {lag.topic}-{lag.partition} at offset {lag.offset} among "
            f"{self._count} partitions",
            {"event": "report", "partitions": self._count, "max_lag": lag._asdict()},
        )

    def _report_difference(self, difference: Difference) -> None:
        label = f"partition {difference.topic}-{difference.partition}"
        replica, other, offset = difference.replica, difference.other, difference.offset
        value, other_value = difference.value, difference.other_value
        if difference.kind == "offset":
            text = f"{label}: replica {replica}'s offset {value} doesn't match replica {other}'s offset {other_value}"
        elif difference.kind == "checksum":
            text = (
                f"{label} has unmatched checksum at offset {offset}; replica {replica}'s checksum {value}; "
                f"replica {other}'s checksum {other_value}"
            )
        elif difference.kind == "content":
            text = f"{label} has unmatched content at offset {offset}; replica {replica} and replica {other}"
        else:
            text = f"{label}: replica {replica} cannot be read at offset {offset}: {difference.reason}"
        self._print(text, {"event": "difference", **_difference_json(difference)})

    def _report_errors(self, errors: dict[tuple[str, int, int], KafkaError]) -> None:
        """Print each new fetch error. OFFSET_OUT_OF_RANGE is not printed: the replica is only behind."""
        for (topic, partition, node), error in errors.items():
            text = str(error)
            if self._reported.get((topic, partition, node)) == text or error.name == "OFFSET_OUT_OF_RANGE":
                continue
            self._reported[topic, partition, node] = text
            place = {"topic": topic, "partition": partition, "replica": node}
            self._console.error(f"replica {node} of partition {topic}-{partition}: {text}", error.name, **place)


def _difference_json(difference: Difference) -> dict[str, object]:
    replicas: list[dict[str, object]] = [{"id": difference.replica}]
    if difference.other >= 0:
        replicas.append({"id": difference.other})
    if difference.kind in ("offset", "checksum"):
        for replica, value in zip(replicas, (difference.value, difference.other_value), strict=True):
            replica[difference.kind] = value
    return {
        "kind": difference.kind,
        "topic": difference.topic,
        "partition": difference.partition,
        "offset": difference.offset,
        "replicas": replicas,
        "reason": difference.reason or None,
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
        Option(
            "--exit-at-end",
            "Exit when every partition reaches the end offset that it had at the start. Exit status 1 if there is no "
            "progress for 30 seconds.",
            ours=True,
        ),
        command_config()._replace(ours=True),
    ),
    run=run,
    missing_bootstrap='Missing required argument "[broker-list]"',
    examples=(
        "kt replica-verification --exit-at-end",
        "kt replica-verification --topics-include 'orders.*' --report-interval-ms 5000",
    ),
)
