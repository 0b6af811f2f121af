"""One run of kt redrive: find the slice and the stored progress, send, and report what was sent and what stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkatools.commands.redrive.report import report
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError, Timeout
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.compression import CompressionType
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, client_settings
from kafkatools.options.search_options import filters_of, option_bytes
from kafkatools.options.slice_options import ended_slice_of, range_of
from kafkatools.tools.copying.client_cluster import ClientCluster, described, partition_numbers
from kafkatools.tools.copying.codec import first_codec
from kafkatools.tools.lines.open_ends import report_open_ends
from kafkatools.tools.lines.slice import LOG_END, Slice
from kafkatools.tools.lines.slices import Selection, SliceBounds, fixed_bounds
from kafkatools.tools.redrive.plan import Planner, RedriveRules
from kafkatools.tools.redrive.progress import RedriveGroup, SentOffsets
from kafkatools.tools.redrive.redriver import RedriveLimits, Redriver, RedriveSource
from kafkatools.tools.redrive.targets import Targets
from kafkatools.tools.rights import ADVICE, TOPIC, TRANSACTIONAL_ID, Right, is_missing_right, needs
from kafkatools.tools.search.search import Filter, Search

_CLIENT_ID = "kt-redrive"
_CLOSE_MS = 5000
_READ_COMMITTED = "read_committed"
_AGAIN = "Run the same command again: it goes on with the records that were not sent."


def run_redrive(console: Console, args: Args) -> ExitStatus:
    """Run kt redrive: send the selected records and print the outcome. Raises and returns as its `run`."""
    name = args.operand
    if name is None:
        raise UsageError("kt redrive takes a dead-letter topic", "For example: kt redrive orders.DLT --dry-run")
    requested = _requested_slice(args, console.clock.wall_ms())
    rules = _rules(args, name)
    search = Search(_filters(args))
    cluster = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    with cluster.admin(console.clock) as admin:
        topic = described(admin, name)
        if topic is None:
            raise CommandError(f"Topic {name} does not exist", kind="UNKNOWN_TOPIC_OR_PARTITION")
        parts = [TopicPartition(topic.name, number) for number in partition_numbers(topic, args.partition)]
        _ensure_leaders(topic)
        with Consumer(cluster.reader(_READ_COMMITTED), console.clock) as consumer:
            bounds = fixed_bounds(consumer, requested, parts, console.note)
            source = RedriveSource(consumer, bounds, Selection(*requested.times), search)
            run = _Run(console, args, cluster, topic, rules)
            redriver = run.run(source, admin)
        if requested.end == LOG_END:
            settings = {**cluster.settings, "bootstrap.servers": cluster.bootstrap}
            report_open_ends(settings, console.clock, bounds.ends or {}, console.note)
    for line in search.notes():
        console.note(line)
    return report(console, name, redriver.tally, is_sent=not args.dry_run)


def _ensure_leaders(topic: TopicDescription) -> None:
    """Raise CommandError if a partition has no leader: which of its records were sent back is then unknown."""
    lost = [part.partition for part in topic.partitions if part.leader < 0]
    if lost:
        raise CommandError(
            f"{topic.name}-{lost[0]} has no leader: nothing was sent back",
            hint="Run the same command again when a broker with its records is back.",
            kind="LEADER_NOT_AVAILABLE",
        )


def _requested_slice(args: Args, now_ms: int) -> Slice:
    """Return the slice of the options; without them all records that are there at the start. Raises UsageError."""
    if args.offset is None:
        return ended_slice_of(args, now_ms)
    requested = range_of(args.offset, now_ms)
    return requested if requested.end is not None else requested._replace(end=LOG_END)


def _rules(args: Args, topic: str) -> RedriveRules:
    """Return what the options say about each record. Raises UsageError for a suffix that the topic does not have."""
    if args.to == topic:
        raise UsageError(f"--to {args.to} is the dead-letter topic itself", "Name the topic to send the records to.")
    default_topic = None
    if args.from_suffix is not None:
        default_topic = topic.removesuffix(args.from_suffix)
        if default_topic in ("", topic):
            raise UsageError(f"--from-suffix '{args.from_suffix}' is not the end of the name {topic}")
    return RedriveRules(
        to=args.to,
        origin_header=None if args.origin_header is None else option_bytes(args.origin_header),
        default_topic=default_topic,
        keep_headers=bool(args.keep_headers),
        same_partition=bool(args.same_partition),
        keeps_original_time=args.timestamp == "original",
        max_attempts=args.max_attempts,
    )


def _filters(args: Args) -> list[Filter]:
    filters = filters_of(args)
    if args.exception is not None:
        from kafkatools.tools.redrive.exception_filter import ExceptionFilter

        filters.insert(0, ExceptionFilter(args.exception))
    return filters


class _Run:
    """A run with its cluster and the dead-letter topic."""

    def __init__(
        self, console: Console, args: Args, cluster: ClientCluster, topic: TopicDescription, rules: RedriveRules
    ) -> None:
        self._console = console
        self._args = args
        self._cluster = cluster
        self._topic = topic
        self._rules = rules
        self._group = RedriveGroup(topic.name, topic.topic_id)

    def run(self, source: RedriveSource, admin: AdminClient) -> Redriver:
        """Send the records, or with --dry-run only count them. Raises CommandError for a run that is incomplete, and
        KeyboardInterrupt."""
        codec = self._codec(source.bounds)
        if self._args.dry_run:
            looking = self._redriver(source, None, codec, admin)
            self._go(looking, source.bounds)
            return looking
        producer = Producer(self._cluster.writer(self._group.group_id, codec), self._console.clock)
        redriver: Redriver | None = None
        try:
            with needs(Right("WRITE", TRANSACTIONAL_ID, self._group.group_id)):
                producer.init_transactions()
            redriver = self._redriver(source, producer, codec, admin)
            self._go(redriver, source.bounds)
        except (KafkaError, CommandError) as error:
            producer.close(_CLOSE_MS)
            kind = error.name if isinstance(error, KafkaError) else error.kind
            hint = f"{ADVICE if is_missing_right(error) else ''} {_AGAIN}".strip()
            hint = hint if isinstance(error, KafkaError) else error.hint
            count = f"{redriver.committed_count if redriver is not None else 0}"
            if isinstance(error, Timeout):  # the last commit may have been made
                count = f"At least {count}"
            raise CommandError(f"{count} records were sent back, then: {error}", hint=hint, kind=kind) from error
        except KeyboardInterrupt:
            producer.close(_CLOSE_MS)
            self._console.note(f"{redriver.committed_count if redriver is not None else 0} records were sent back.")
            self._console.note(_AGAIN)
            raise
        producer.close()
        return redriver

    def _codec(self, bounds: SliceBounds) -> str:
        """Return the codec of the first batch to read: what fits into the dead-letter topic compressed may be too large
        for its target uncompressed."""
        ends = bounds.ends or {}
        ranges = {part.partition: (start, ends[part]) for part, start in bounds.starts.items()}
        with needs(Right("READ", TOPIC, self._topic.name)):
            return first_codec(self._cluster.reader(_READ_COMMITTED), self._console.clock, self._topic.name, ranges)

    def _redriver(self, source: RedriveSource, producer: Producer | None, codec: str, admin: AdminClient) -> Redriver:
        """Prepare the run. The progress is read once no other run can change it."""
        targets = Targets(admin, self._topic.name, self._console.note)
        planner = Planner(self._rules, targets, CompressionType.for_label(codec), self._console.clock.wall_ms())
        limits = RedriveLimits(self._args.max_messages, self._args.throttle or -1)
        done = self._done(source, admin)
        return Redriver(source, producer, planner, self._group, done, limits)

    def _done(self, source: RedriveSource, admin: AdminClient) -> SentOffsets:
        """Return the stored progress of all partitions. Offsets below the log start count as sent. Offsets beyond the
        end are dropped: an unclean leader election lost their records, and other records get them."""
        from kafkatools.tools.redrive.offset_ranges import OffsetRanges

        done = self._group.read(admin, is_final=not self._args.dry_run)
        if not done:
            self._console.note(
                f"No earlier run is known: the group {self._group.group_id} has no progress of the present topic "
                f"{self._topic.name}. What an earlier run sent would be sent again; --since selects new records."
            )
        parts = [TopicPartition(self._topic.name, part.partition) for part in self._topic.partitions]
        for part, log_start in source.consumer.beginning_offsets(parts).items():
            done.setdefault(part.partition, OffsetRanges()).add(0, log_start)
        for part, end in source.consumer.end_offsets(parts).items():
            if done[part.partition].cut(end):
                self._console.note(f"{part} lost records that were sent back: it ends at offset {end} now")
        return done

    def _go(self, redriver: Redriver, bounds: SliceBounds) -> None:
        total = sum(_lengths(bounds))
        with self._console.progress(f"Reading {self._topic.name}", total, measure=lambda: redriver.read_offsets):
            redriver.run(self._console.clock)


def _lengths(bounds: SliceBounds) -> Iterator[int]:
    ends: Mapping[TopicPartition, int] = bounds.ends or {}
    for part, start in bounds.starts.items():
        yield max(0, ends[part] - start)
