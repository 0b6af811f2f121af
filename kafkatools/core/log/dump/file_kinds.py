"""Recognize the kind of a log file by its name."""

from __future__ import annotations

import os
import re

from kafkatools.core.log.dump.damage import Damage
from kafkatools.java_numbers import java_long

LOG = ".log"
SNAPSHOT = ".checkpoint"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
PRODUCER_SNAPSHOT = ".snapshot"
TRANSACTION_INDEX = ".txnindex"
KINDS = (LOG, SNAPSHOT, OFFSET_INDEX, TIME_INDEX, PRODUCER_SNAPSHOT, TRANSACTION_INDEX)
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"

_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint(\.deleted|\.part)?", re.ASCII)


def kind_of(path: str) -> str | None:
    """Return the suffix of a file that the dump can read, such as `.log`; None for any other file."""
    name = os.path.basename(path)
    suffix = name[name.rfind(".") :] if "." in name else ""
    return suffix if suffix in KINDS else None


def base_offset_of(path: str) -> int:
    """Return the offset that begins a file's name. Raises Damage when it is not a number."""
    name = os.path.basename(path).split(".")[0]
    try:
        return java_long(name)
    except ValueError:
        advice = "the name of a segment or index begins with its base offset, such as 00000000000000000000.log"
        raise Damage(f'For input string: "{name}"; {advice}') from None


def snapshot_id_of(path: str) -> tuple[int, int] | None:
    """Return end offset and epoch from the name of a KRaft snapshot, None for the bootstrap snapshot. Raises Damage for
    another name."""
    name = os.path.basename(path)
    if name == BOOTSTRAP_SNAPSHOT:
        return None
    matched = _SNAPSHOT_NAME.fullmatch(name)
    if matched is None:
        raise Damage(f"{name} is not the name of a snapshot: <end offset>-<epoch>.checkpoint")
    return int(matched[1]), int(matched[2])


def files_in(directory: str) -> list[str]:
    """List the files under a directory that can be dumped, sorted by name; subdirectories come after their parent.
    `.checkpoint` files that are no KRaft snapshots are left out. A missing or unreadable directory gives no files."""
    paths = []
    for root, directories, names in os.walk(directory):
        directories.sort()
        paths += [os.path.join(root, name) for name in sorted(names) if kind_of(name) is not None]
    return [
        path
        for path in paths
        if kind_of(path) != SNAPSHOT
        or os.path.basename(path) == BOOTSTRAP_SNAPSHOT
        or _SNAPSHOT_NAME.fullmatch(os.path.basename(path))
    ]
