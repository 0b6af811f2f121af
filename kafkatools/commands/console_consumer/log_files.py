"""kt console-consumer --from log:DIRECTORY: print the records of segment files, without a broker.

A run does not wait for new records: everything is read from the beginning, or from the start of the slice, to the end
that the files had when the command started.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

from kafkatools.commands.console_consumer.inputs import requested_records
from kafkatools.commands.console_consumer.outputs import Output
from kafkatools.commands.console_consumer.reading import ConsoleConsumer
from kafkatools.console import Console
from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchOptions, SkipCorrupt
from kafkatools.core.log.reading.directories import PartitionDirectory, UnreadableLog, find_partitions
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.tools.lines.log_files import LogFilesReader
from kafkatools.tools.lines.partition_reader import PartitionReader
from kafkatools.tools.lines.record_sources import RequestedTopics
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Slice

_PREFIX = "log:"
_MOST_NAMES = 8
_NEED_A_BROKER = (
    "bootstrap-server",
    "group",
    "timeout-ms",
    "command-config",
    "command-property",
    "consumer-property",
    "consumer.config",
)


def run(console: Console, args: Args, output: Output, settings: dict[str, str]) -> ExitStatus:
    """Print the requested records of the files. Returns FAILED when records were skipped or missing. Raises UsageError,
    CommandError, KafkaError, OSError."""
    for option in _NEED_A_BROKER:
        if args.has_option(option):
            raise UsageError(f"--{option} is for reading from brokers: it cannot be used with --from log:DIRECTORY")
    source = getattr(args, "from")
    path = source.removeprefix(_PREFIX)
    if not source.startswith(_PREFIX) or not path:
        hint = f"Did you mean log:{source}?" if os.path.exists(source) else ""
        raise UsageError(f"Invalid value of --from: '{source}' is not log:DIRECTORY", hint)
    try:
        directories = find_partitions(path)
    except UnreadableLog as error:
        raise CommandError(str(error)) from None
    only = directories[0].topic_partition if len(directories) == 1 else None
    requested = requested_records(args, settings, console.clock.wall_ms(), only, has_end=True)
    requested = _with_topic(requested, directories, path)
    return _LogFilesConsumer(console, args, output, _to_the_end(args, requested), directories).run(
        Config(CONSUMER, settings)
    )


def _with_topic(requested: RequestedTopics, directories: Sequence[PartitionDirectory], path: str) -> RequestedTopics:
    """Return the requested records, of the only topic if no option names one. Raises UsageError if there are several,
    CommandError for a topic that is not there."""
    topics = sorted({directory.topic_partition.topic for directory in directories})
    names = ", ".join(topics[:_MOST_NAMES])
    if len(topics) > _MOST_NAMES:
        names += f" and {len(topics) - _MOST_NAMES} more"
    if requested.topic is None and requested.include is None:
        if len(topics) > 1:
            raise UsageError(f"{path} contains several topics, name one with --topic or some with --include: {names}")
        return requested._replace(topic=topics[0])
    if requested.topic is not None and requested.topic not in topics:
        raise CommandError(f"Topic {requested.topic} is not in {path}; it contains {names}")
    return requested


def _to_the_end(args: Args, requested: RequestedTopics) -> RequestedTopics:
    """Return the requested records, from the beginning if no option says where, and up to the end of the files."""
    bounds = requested.bounds
    if bounds is None:
        return requested if args.offset is not None else requested._replace(bounds=Slice(LOG_START, LOG_END))
    if bounds.end is None:
        return requested._replace(bounds=bounds._replace(end=LOG_END))
    return requested


class _LogFilesConsumer(ConsoleConsumer):
    """One run of kt console-consumer that reads files."""

    def __init__(
        self,
        console: Console,
        args: Args,
        output: Output,
        requested: RequestedTopics,
        directories: Sequence[PartitionDirectory],
    ) -> None:
        super().__init__(console, args, output, requested)
        self._directories = directories
        self._stops = True

    def _open(self, config: Config, skip_corrupt: SkipCorrupt | None) -> AbstractContextManager[PartitionReader]:
        isolation = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        pass_over = None if self._printer.search is None else self._printer.search.pass_over
        options = FetchOptions(isolation, True, config.max_decompressed_message_bytes, skip_corrupt, pass_over)
        return LogFilesReader(self._directories, options, self._console.note)
