"""`check`: verify each batch checksum and each file of log directories; the result is a list of findings.

Files are checked one by one (check_files.py), then the facts of a directory's segments are checked against each other
(check_partition.py). `check_here` does it in this process and others of this machine, `spark_check.py` on a cluster.
"""

from __future__ import annotations

import heapq
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import (
    CLEANER_OFFSET_CHECKPOINT,
    DELETE_DIRECTORY_SUFFIX,
    INDEX_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TIME_INDEX_SUFFIX,
    offset_from_name,
)
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.check_files import Problem, SegmentFacts, check_segment, check_small_file
from kafkatools.pipeline.jobs.check_partition import check_partition

_CHECKPOINTS = (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
_NAMED_SUFFIXES = (".log", ".snapshot", ".txnindex", ".checkpoint")
_TASKS_PER_PROCESS = 4
_LEAST_BYTES = 256 << 20  # the start of a process costs as much as checking these


class CheckedFile(NamedTuple):
    """A file to check, and the directory that contains it."""

    directory: str
    path: str
    size_bytes: int
    is_alone: bool = False
    """The path names this file, so the rest of its directory is not checked."""


class CheckFinding(NamedTuple):
    """A finding: `position` in bytes, None if the whole file is meant; `severity` is damage or warning; `lost`
    describes the effect."""

    directory: str
    file: str
    kind: str
    position: int | None
    severity: str
    problem: str
    lost: str | None

    @classmethod
    def of(cls, directory: str, problem: Problem) -> CheckFinding:
        """Return a problem of a file in a directory as a finding."""
        position = problem.position if problem.position >= 0 else None
        return cls(
            directory, problem.file, problem.kind, position, problem.severity, problem.problem, problem.lost or None
        )

    @property
    def place(self) -> tuple[str, int]:
        """The key by which findings are sorted: file, then position, the whole file first."""
        return self.file, -1 if self.position is None else self.position


class CheckedGroup(NamedTuple):
    """The outcome of checking some files: their findings, and by directory the facts of its segments. A directory of
    which only named files are checked is missing there."""

    findings: list[CheckFinding]
    facts: dict[str, list[SegmentFacts]]
    size_bytes: int


def files_to_check(paths: Iterable[str]) -> list[CheckedFile]:
    """Return the segments, indexes, snapshots and checkpoints below the paths, without partitions that are being
    deleted. A path may name such a file, also without an offset in its name. Directories that cannot be listed are
    returned too, for a finding. Raises PipelineError for a path that does not exist, names an index or another file, or
    contains none of these files."""
    files: dict[str, CheckedFile] = {}
    for path in paths:
        if not os.path.exists(path):
            raise PipelineError(f"{path}: there is no such file or directory")
        if path.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and os.path.isfile(path):
            raise PipelineError(f"{path} is an index; name its segment, with which it is checked")
        if os.path.isfile(path) and not (os.path.basename(path) in _CHECKPOINTS or path.endswith(_NAMED_SUFFIXES)):
            raise PipelineError(f"{path} is not a segment, snapshot, transaction index or checkpoint")
        files_below = {file.path: file for file in _files_below(path)}
        if not files_below:
            raise PipelineError(f"{path} contains no files of a log")
        files |= files_below
    return list(files.values())


def _files_below(path: str) -> Iterator[CheckedFile]:
    path = os.path.abspath(path)
    if os.path.isfile(path):
        yield CheckedFile(os.path.dirname(path), path, os.path.getsize(path), is_alone=True)
        return
    unreadable: list[OSError] = []
    for root, directories, names in os.walk(path, onerror=unreadable.append):
        directories[:] = sorted(name for name in directories if not name.endswith(DELETE_DIRECTORY_SUFFIX))
        for name in sorted(names):
            if _is_checked(name):
                full = os.path.join(root, name)
                yield CheckedFile(root, full, _size_of(full))
    for error in unreadable:
        yield CheckedFile(error.filename, error.filename, 0, is_alone=True)


def _size_of(path: str) -> int:
    """Return the size of a file in bytes; 0 if that is unknown, since the check of the file reports why."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _is_checked(name: str) -> bool:
    if name in _CHECKPOINTS or name.endswith(".checkpoint"):
        return True
    return name.endswith(_SUFFIXES) and offset_from_name(name) is not None


def check_here(
    files: Sequence[CheckedFile], *, deep: bool = False, advance: Callable[[int], None] = lambda size_bytes: None
) -> list[CheckFinding]:
    """Return all findings in the files, sorted by `place`; `deep` decodes each record too. Many bytes are divided among
    as many processes as this one may use cores. `advance` is called with the size of files that were checked. Raises
    PipelineError if a process dies."""
    processes = min(os.cpu_count() or 1, len(files))
    findings: list[CheckFinding] = []
    facts_of: dict[str, list[SegmentFacts]] = {}
    if processes < 2 or sum(file.size_bytes for file in files) < _LEAST_BYTES:
        groups: Iterable[CheckedGroup] = (check_group([file], deep) for file in files)
    else:
        groups = _in_processes(spread(files, _TASKS_PER_PROCESS * processes), deep, processes)
    for group in groups:
        advance(group.size_bytes)
        findings += group.findings
        for directory, facts in group.facts.items():
            facts_of.setdefault(directory, []).extend(facts)
    for directory, facts in facts_of.items():
        findings += [CheckFinding.of(directory, problem) for problem in check_partition(directory, facts)]
    return sorted(findings, key=lambda finding: finding.place)


def _in_processes(groups: Sequence[Sequence[CheckedFile]], deep: bool, processes: int) -> Iterator[CheckedGroup]:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _ignore_interrupts)
    try:
        futures: list[Future[CheckedGroup]] = [pool.submit(check_group, group, deep) for group in groups]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise PipelineError("A process that checked files was killed; the kernel's log says why") from None
    except BaseException:
        for process in list((pool._processes or {}).values()):
            with suppress(ProcessLookupError):
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check_group(files: Iterable[CheckedFile], deep: bool) -> CheckedGroup:
    """Check files one by one."""
    group = CheckedGroup([], {}, sum(file.size_bytes for file in files))
    for file in files:
        problems, facts = check_file(file.path, deep=deep)
        group.findings.extend(CheckFinding.of(file.directory, problem) for problem in problems)
        if not file.is_alone:
            group.facts.setdefault(file.directory, []).extend(() if facts is None else (facts,))
    return group


def spread(files: Sequence[CheckedFile], groups: int) -> list[list[CheckedFile]]:
    """Distribute the files over at most `groups` groups of about equal bytes."""
    buckets: list[tuple[int, int, list[CheckedFile]]] = [
        (0, number, []) for number in range(max(1, min(groups, len(files))))
    ]
    for file in sorted(files, key=lambda file: -file.size_bytes):
        size, number, members = heapq.heappop(buckets)
        members.append(file)
        heapq.heappush(buckets, (size + file.size_bytes, number, members))
    return [members for _, _, members in sorted(buckets, key=lambda bucket: bucket[1])]


def check_file(path: str, *, deep: bool = False) -> tuple[list[Problem], SegmentFacts | None]:
    """Check one file; with `deep`, decode each record of a segment too. Returns its problems, and for a segment the
    facts for the check of its partition, else None. An index is not checked here but with its segment. A file that
    cannot be opened is a problem, not an exception."""
    kind = os.path.basename(path).rpartition(".")[2]
    try:
        if os.path.isdir(path):
            kind = "directory"
            os.listdir(path)  # raises, unless the directory became readable
            return [], None
        if kind == "log":
            return check_segment(path, deep=deep)
        if os.path.basename(path) in _CHECKPOINTS:
            return _check_checkpoint(path), None
        return ([] if kind in ("index", "timeindex") else check_small_file(path)), None
    except OSError as problem:
        return [Problem(problem.filename or path, kind, -1, f"cannot be read: {problem.strerror}")], None
    except Damage as damage:
        return [Problem(path, kind, damage.position, damage.reason)], None


def _check_checkpoint(path: str) -> list[Problem]:
    try:
        read_offset_checkpoint(RealFileSystem(), path)
    except (KafkaError, ValueError) as error:
        return [Problem(path, os.path.basename(path), -1, str(error))]
    return []
