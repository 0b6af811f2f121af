"""One run of kt copy: find the slice or the stored progress, copy, verify, and report each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.commands.copy.clusters import (
    clusters_of,
    create_target,
    ensure_keeps_timestamps,
    topic_name,
)
from kafkatools.commands.copy.slices import place_progress
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.producer.producer import Producer
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.options.connection import noting_changes_through
from kafkatools.options.slice_options import ended_slice_of
from kafkatools.tools.copying.checksum import RecordChecksum
from kafkatools.tools.copying.client_cluster import ClientCluster, cluster_id, described, partition_numbers
from kafkatools.tools.copying.codec import first_codec
from kafkatools.tools.copying.copier import TopicCopier, checksum_of
from kafkatools.tools.copying.progress import (
    CopyPlace,
    PartitionProgress,
    forget_earlier_progress,
    forget_progress,
    read_progress,
)
from kafkatools.tools.lines.slice import LOG_END

_CLOSE_MS = 5000

Progress = dict[int, PartitionProgress]


def run_copy(console: Console, args: Args) -> ExitStatus:
    """Run kt copy, as its `run` says."""
    if len(args.operands) != 2:
        raise UsageError("kt copy takes two topics, the source and the target", "For example: kt copy orders backup")
    wanted = ended_slice_of(args, console.clock.wall_ms())
    source, target, connection = clusters_of(console, args)
    with source.admin(console.clock) as source_admin, target.admin(console.clock) as target_admin:
        noting_changes_through(console, target_admin, connection)
        place, topic = _place(source_admin, target_admin, args)
        copy = _Copy(console, args, source, target, place)
        with Consumer(source.reader(args.isolation_level), console.clock) as consumer:
            if args.resume:
                progress = _resumed(console, target_admin, place, consumer)
            else:
                numbers = partition_numbers(topic, args.partition)
                log_ends = _offsets(source_admin, [(topic.name, number) for number in numbers], LATEST)
                progress = place_progress(console, consumer, place, numbers, wanted)
                if wanted.end == LOG_END:
                    _note_open_transactions(console, place, progress, log_ends)
                if args.dry_run:
                    return _print_plan(console, place, progress)
                _prepare_target(args, source_admin, target_admin, place, topic)
                progress = _with_target_starts(target_admin, place, progress, is_append=bool(args.append))
            copier = copy.run(consumer, progress, target_admin)
        return copy.finish(copier, target_admin)


def _place(source: AdminClient, target: AdminClient, args: Args) -> tuple[CopyPlace, TopicDescription]:
    """Return the two ends of the copy and the source topic. Raises CommandError for a missing source, UsageError when
    both ends are the same topic."""
    names = [topic_name(operand) for operand in args.operands]
    source_id = cluster_id(source)
    if names[0] == names[1] and source_id == cluster_id(target):
        raise UsageError(
            f"Source and target are the same topic, {names[0]}",
            "Name another target topic, or another cluster with --to-bootstrap-server or --to-profile.",
        )
    topic = described(source, names[0])
    if topic is None:
        raise CommandError(f"Topic {names[0]} does not exist", kind="UNKNOWN_TOPIC_OR_PARTITION")
    return CopyPlace(source_id, names[0], topic.topic_id, names[1]), topic


def _note_open_transactions(
    console: Console, place: CopyPlace, progress: Progress, log_ends: Mapping[tuple[str, int], int]
) -> None:
    """Name the partitions that end with an open transaction, whose records are not copied. `log_ends`: looked up
    before the progress."""
    for number, item in progress.items():
        if item.end < log_ends[place.source, number]:
            console.note(
                f"{place.source}-{number}: an open transaction begins at offset {item.end}, where the copy ends"
            )


def _prepare_target(
    args: Args, source: AdminClient, target: AdminClient, place: CopyPlace, topic: TopicDescription
) -> None:
    """Create the target topic with --create, and check that it can take the copy. Raises CommandError or KafkaError."""
    existing = described(target, place.target)
    if existing is None:
        if not args.create:
            raise CommandError(
                f"Topic {place.target} does not exist in the target cluster",
                hint="Pass --create to create it with the partitions and configs of the source.",
                kind="UNKNOWN_TOPIC_OR_PARTITION",
            )
        create_target(source, target, topic, args)
        return
    if len(existing.partitions) < len(topic.partitions):
        raise CommandError(
            f"Topic {place.target} has {len(existing.partitions)} partitions, and {place.source} has "
            f"{len(topic.partitions)}: partition numbers could not be kept",
            hint=f"kt topics --alter --topic {place.target} --partitions {len(topic.partitions)}",
        )
    ensure_keeps_timestamps(target, place.target)


def _with_target_starts(target: AdminClient, place: CopyPlace, progress: Progress, *, is_append: bool) -> Progress:
    """Return the progress with the log ends of the target, where the copy will begin. Raises CommandError for a target
    with records, unless it is to be appended to."""
    keys = [(place.target, number) for number in progress]
    ends = _offsets(target, keys, LATEST)
    starts = _offsets(target, keys, EARLIEST)
    filled = [key for key in keys if ends[key] > starts[key]]
    if filled and not is_append:
        raise CommandError(
            f"{place.target}-{filled[0][1]} has records already: its log end offset is {ends[filled[0]]}",
            hint="Pass --resume to continue an interrupted copy, or --append to append the copy to these records.",
        )
    return {number: item._replace(target_start=ends[place.target, number]) for number, item in progress.items()}


def _offsets(admin: AdminClient, keys: Sequence[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int]:
    listed = list_offsets(admin, dict.fromkeys(keys, timestamp))
    for offset in listed.values():
        if offset.error is not None:
            raise offset.error
    return {key: offset.offset for key, offset in listed.items()}


def _resumed(console: Console, target: AdminClient, place: CopyPlace, consumer: Consumer) -> Progress:
    """Return the stored progress. Records that were deleted before they were copied are reported, counted as lost and
    left out. Raises CommandError when nothing is stored."""
    stored = read_progress(target, place, is_final=False)
    if not stored:
        raise CommandError(
            f"There is no interrupted copy of {place.source} to {place.target} in the target cluster",
            hint="Run the command without --resume to start a copy.",
        )
    parts = [TopicPartition(place.source, number) for number in stored]
    log_starts = consumer.beginning_offsets(parts)
    for part in parts:
        item = stored[part.partition]
        first = min(log_starts[part], item.end)
        if item.position < first:
            console.error(f"Offsets {item.position} to {first - 1} of {part} were deleted before they were copied")
            stored[part.partition] = item._replace(position=first, lost=item.lost + first - item.position)
    return dict(sorted(stored.items()))


def _print_plan(console: Console, place: CopyPlace, progress: Progress) -> ExitStatus:
    for number, item in progress.items():
        row = {"topic": place.source, "partition": number, "start": item.position, "end": item.end}
        text = f"{place.source}-{number}: offsets {item.position} to {item.end - 1}"
        console.print(text if item.end > item.position else f"{place.source}-{number}: nothing to copy", row)
    return ExitStatus.OK


class _Copy:
    """A copy with its two clusters, which prints its outcome."""

    def __init__(
        self, console: Console, args: Args, source: ClientCluster, target: ClientCluster, place: CopyPlace
    ) -> None:
        self._console = console
        self._args = args
        self._source = source
        self._target = target
        self._place = place

    def run(self, consumer: Consumer, progress: Progress, target: AdminClient) -> TopicCopier:
        """Copy until all partitions reach their end offsets. Raises CommandError, with the command that resumes the
        copy if it began, and KeyboardInterrupt."""
        console, place = self._console, self._place
        codec = self._args.compression_codec or first_codec(
            self._source.reader(self._args.isolation_level),
            console.clock,
            place.source,
            {number: (item.position, item.end) for number, item in progress.items()},
        )
        producer = Producer(self._target.writer(place.group_id, codec), console.clock)
        copier = TopicCopier(consumer, producer, place, progress)
        try:
            producer.init_transactions()
            if self._args.resume:  # an interrupted commit may have been completed now
                newer = self._newer(read_progress(target, place), progress)
                copier = TopicCopier(consumer, producer, place, {**progress, **newer})
            else:
                forget_earlier_progress(target, place)
            total = sum(max(0, item.end - item.position) for item in copier.progress.values())
            with console.progress(f"Copying {place.source}", total, measure=lambda: copier.read_offsets):
                copier.run(console.clock)
        except CommandError:
            producer.close(_CLOSE_MS)
            raise
        except KafkaError as error:
            producer.close(_CLOSE_MS)
            raise CommandError(
                f"The copy is incomplete: {error}", hint=self._how_to_resume(), kind=error.name
            ) from error
        except KeyboardInterrupt:
            producer.close(_CLOSE_MS)
            console.note(f"The copy is incomplete: {copier.copied_records} records are committed in the target.")
            console.note(self._how_to_resume())
            raise
        producer.close()
        return copier

    @staticmethod
    def _newer(stored: Progress, progress: Progress) -> Progress:
        return {number: item for number, item in stored.items() if item.position > progress[number].position}

    def _how_to_resume(self) -> str:
        return (
            "Run the same command with --resume, without --create, --append, --partition, --since, --until and --last."
        )

    def finish(self, copier: TopicCopier, target: AdminClient) -> ExitStatus:
        """Verify the copy, print each partition and the total, and forget the progress of a sound copy."""
        place, progress = self._place, copier.progress
        verified = {} if self._args.no_verify else self._checksums(target, progress)
        differs = {number for number, found in verified.items() if found != progress[number].checksum}
        for number, item in progress.items():
            self._print(number, item, verified.get(number))
        lost = sum(item.lost for item in progress.values())
        complete = sum(not item.lost for item in progress.values())
        note = f"complete: {complete}/{len(progress)} partitions"
        self._console.note(note if not lost else f"{note}; {lost} offsets were deleted before they were copied")
        self._console.note(f"Copied a total of {copier.copied_records} records")
        if not differs:
            error = forget_progress(target, place)
            if error is not None:
                self._console.note(f"The group {place.group_id}, which held the progress, was not deleted: {error}")
        if lost:
            return ExitStatus.FAILED
        return ExitStatus.FINDINGS if differs else ExitStatus.OK

    def _checksums(self, target: AdminClient, progress: Mapping[int, PartitionProgress]) -> dict[int, RecordChecksum]:
        """Read the copied records of each partition back. Raises KafkaError when they cannot be read."""
        ends = _offsets(target, [(self._place.target, number) for number in progress], LATEST)
        found = {}
        settings = self._target.reader("read_committed")
        with (
            Consumer(settings, self._console.clock) as consumer,
            self._console.progress(f"Verifying {self._place.target}", len(progress)) as shown,
        ):
            for number, item in progress.items():
                part = TopicPartition(self._place.target, number)
                found[number] = checksum_of(consumer, part, item.target_start, ends[part])
                shown.advance(1)
        return found

    def _print(self, number: int, item: PartitionProgress, found: RecordChecksum | None) -> None:
        place, records = self._place, item.checksum.records
        is_same = None if found is None else found == item.checksum
        row = {
            "source": place.source,
            "target": place.target,
            "partition": number,
            "records": records,
            "source_end": item.end,
            "target_start": item.target_start,
            "lost_offsets": item.lost,
            "verified": is_same,
            "target_records": None if found is None else found.records,
        }
        text = f"{place.source}-{number} -> {place.target}-{number}: {records} records"
        if found is None:
            self._console.print(text, row)
        elif is_same:
            self._console.print(f"{text}, same checksum", row)
        else:
            reason = f"the target has {found.records}" if found.records != records else "their contents differ"
            hint = "another producer wrote to it, or records were deleted" if found.records != records else ""
            self._console.print_outcome(row, error=f"{text}, but {reason}" + (f" ({hint})" if hint else ""))
