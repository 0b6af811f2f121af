"""Run and output of kt check in this process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable

from kafkatools.commands.pipeline.job_source import print_rows
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import failures
from kafkatools.console import Console
from kafkatools.core import atomic_file
from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.format.filenames import LOG_SUFFIX, is_log_name, parse_partition_directory
from kafkatools.core.log.recovery.salvage import LostRange, SalvagedPartition, salvage_partition
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args

_LOST_FILE = "lost.jsonl"
_UNFINISHED = ".unfinished"
_AGAIN = "Run the command again with a new directory where there is room."
_METADATA_LOG = "__cluster_metadata-0"


def check_and_salvage(console: Console, args: Args) -> ExitStatus:
    """Check the files of the operands and print the problems; with --salvage also copy what is sound. Returns FINDINGS
    for damage or loss. Raises UsageError, CommandError."""
    if not args.operands:
        raise UsageError("kt check needs a log directory, a partition directory or a log file")
    try:
        from kafkatools.pipeline.jobs.check import CheckFinding, check_here, files_to_check
    except ModuleNotFoundError as error:
        from kafkatools.core.install_command import install_command

        raise UsageError(f"kt check needs the Python package {error.name}: {install_command('sql')}") from None
    has_salvage = args.has_option("salvage")
    if has_salvage and not args.salvage:
        raise UsageError("--salvage needs the name of a directory")
    paths = [path.removeprefix("log:") for path in args.operands]
    with failures():
        files = files_to_check(paths)
        unreadable: list[LostRange] = []
        directories: list[str] = []
        if has_salvage:
            directories = _partitions(paths, unreadable)
            _ensure_new(args.salvage, paths)
            _create(args.salvage)
        size = sum(file.size_bytes for file in files)
        with console.progress("Checking", size, is_bytes=True, prints=False) as progress:
            findings = check_here(files, deep=args.deep, advance=progress.advance)
    print_rows(console, "finding", CheckFinding._fields, findings)
    damages = sum(finding.severity == "damage" for finding in findings)
    summary = f"{count_text(len(files), 'file')}, {count_text(size, 'byte')} checked"
    console.note(f"{summary}: {count_text(damages, 'damaged place')}, {count_text(len(findings) - damages, 'warning')}")
    segments_size = sum(file.size_bytes for file in files if file.path.endswith(LOG_SUFFIX))
    has_lost = has_salvage and _salvage(console, args, directories, unreadable, segments_size)
    return ExitStatus.FINDINGS if damages or has_lost else ExitStatus.OK


# -- salvage --


def _partitions(paths: Iterable[str], unreadable: list[LostRange]) -> list[str]:
    """Return the partition directories below the paths, and append the directories that cannot be listed to
    `unreadable`. Raises UsageError for a file, two directories of one name, or none."""
    found: dict[str, str] = {}

    def note_unreadable(error: OSError) -> None:
        unreadable.append(LostRange(error.filename, 0, 0, None, None, f"cannot be read: {error.strerror}"))

    for path in map(os.path.abspath, paths):
        if not os.path.isdir(path):
            raise UsageError(f"{path} is a file; --salvage takes directories")
        for root, names, files in os.walk(path, onerror=note_unreadable):
            names.sort()
            name = os.path.basename(root)
            has_segment = any(file.endswith(LOG_SUFFIX) and is_log_name(file) for file in files)
            if not has_segment or parse_partition_directory(name) is None or name == _METADATA_LOG:
                continue
            if found.setdefault(name, root) != root:
                raise UsageError(f"{found[name]} and {root} are the same partition; salvage one of them at a time")
    if not found:
        raise UsageError("There is no partition directory (topic-number) with segments to salvage")
    return list(found.values())


def _ensure_new(target: str, sources: Iterable[str]) -> None:
    """Raise UsageError for a target with files, or in a directory that is salvaged: a broker does not start with a
    foreign directory among its partitions."""
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise UsageError(f"{target} is not empty; --salvage takes a new directory")
    inside = os.path.join(os.path.realpath(target), "")
    for directory in sources:
        if inside.startswith(os.path.join(os.path.realpath(directory), "")):
            raise UsageError(f"{target} is in {directory}, which is to be salvaged; name another directory")


def _create(target: str) -> None:
    """Create the target, so that one that cannot be written ends the command before the check. Raises CommandError."""
    try:
        os.makedirs(target, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{target} cannot be created: {error.strerror}") from error
    if not os.access(target, os.W_OK | os.X_OK):
        raise CommandError(f"{target} cannot be written: Permission denied")


def _salvage(console: Console, args: Args, directories: list[str], unreadable: Iterable[LostRange], size: int) -> bool:
    """Copy the sound batches and print the lost ranges. Returns whether there are any. `size`: bytes of the segments.
    Raises CommandError."""
    lost = list(unreadable)
    salvaged: list[SalvagedPartition] = []
    try:
        with console.progress("Salvaging", size, is_bytes=True, prints=False) as progress:
            for directory in directories:
                partition = _salvaged(directory, args, progress.advance)
                salvaged.append(partition)
                lost += partition.lost
        rows = (json.dumps(row._asdict(), separators=(",", ":")) + "\n" for row in lost)
        atomic_file.replace_durably(os.path.join(args.salvage, _LOST_FILE), "".join(rows).encode())
    except (OSError, KafkaStorageError) as error:
        text = str(error)
        if isinstance(error, OSError):
            text = f"{error.filename or args.salvage}: {error.strerror}"
        hint = f"{args.salvage} has {len(salvaged)} of {count_text(len(directories), 'partition')} completely. {_AGAIN}"
        raise CommandError(text, hint=hint) from error
    print_rows(console, "lost", LostRange._fields, lost)
    batches, size = sum(part.batches for part in salvaged), sum(part.size_bytes for part in salvaged)
    console.note(
        f"{args.salvage}: {count_text(len(salvaged), 'partition')}, {count_text(batches, 'batch', 'batches')}, "
        f"{count_text(size, 'byte')}; {count_text(len(lost), 'lost range')}"
    )
    return bool(lost)


def _salvaged(directory: str, args: Args, advance: Callable[[int], None]) -> SalvagedPartition:
    """Copy the sound batches of one partition directory under a temporary name, which also an error or Ctrl-C removes.
    Raises OSError."""
    target = os.path.join(args.salvage, os.path.basename(directory))
    try:
        partition = salvage_partition(directory, target + _UNFINISHED, deep=args.deep, advance=advance)
        os.rename(target + _UNFINISHED, target)
    except BaseException:  # Ctrl-C, too: a half copy is worth nothing
        shutil.rmtree(target + _UNFINISHED, ignore_errors=True)
        raise
    return partition
