"""Build and parse the names of log files and partition directories (Kafka's LogFileUtils). Does not touch the disk.

The files of a segment share its base offset, written in 20 digits. A suffix after the type marks work that a crash may
interrupt. `.deleted` waits for removal. `.cleaned` is incomplete output of the cleaner or of a split. `.swap` is
complete and about to replace its source segments.
"""

import re

from kafkatools.core.topic_partition import TopicPartition as TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

DELETE_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
MAX_NAME_LENGTH = 255

_ASIDE = re.compile(
    rf"(.+)-([0-9]+)\.[^.]*(?:{DELETE_DIRECTORY_SUFFIX}|{FUTURE_DIRECTORY_SUFFIX}|{STRAY_DIRECTORY_SUFFIX})", re.ASCII
)


def offset_name(offset: int) -> str:
    """Format an offset as the 20 digits that begin the names of a segment's files."""
    return f"{offset:020d}"


def offset_from_name(name: str) -> int | None:
    """Return the number before the first dot of a file name, such as a segment's base offset; None for a name without
    one."""
    digits, dot, _ = name.partition(".")
    return int(digits) if dot and digits.isascii() and digits.isdigit() else None


def is_log_name(name: str) -> bool:
    """Return whether a file name is that of a segment's `.log` file."""
    return name.endswith(LOG_SUFFIX) and offset_from_name(name) is not None


def is_index_name(name: str) -> bool:
    """Return whether a file name is that of a segment's offset, time or transaction index."""
    return name.endswith(INDEX_SUFFIXES) and offset_from_name(name) is not None


def partition_directory_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory, `topic-partition`."""
    return f"{topic}-{partition}"


def deleted_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a partition's directory that waits for removal: `topic-partition.id-delete`, with the topic
    cut to fit 255 characters (UnifiedLog.logDeleteDirName)."""
    return _fitting(topic, f"-{partition}.{unique_id}{DELETE_DIRECTORY_SUFFIX}")


def stray_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a partition's directory that is kept unused: `topic-partition.id-stray`, with the topic cut to
    fit 255 characters (UnifiedLog.logStrayDirName)."""
    return _fitting(topic, f"-{partition}.{unique_id}{STRAY_DIRECTORY_SUFFIX}")


def _fitting(topic: str, suffix: str) -> str:
    return topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def future_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """Return the name of a future replica's directory, `topic-partition.id-future` (UnifiedLog.logFutureDirName)."""
    return f"{topic}-{partition}.{unique_id}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    """Return the partition of a future replica's directory name, None for any other name."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX):
        return None
    partition, dot, _ = name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")
    return parse_partition_directory(partition) if dot else None


def partition_of_directory(name: str) -> TopicPartition:
    """Return the partition of a directory, of a current or future replica; for any other name partition 0 of it."""
    return parse_partition_directory(name) or parse_future_directory(name) or TopicPartition(name, 0)


def parse_aside_directory(name: str) -> TopicPartition | None:
    """Return the partition of a directory that a broker has set aside (`-delete`, `-future`, `-stray`), None for any
    other name."""
    aside = _ASIDE.fullmatch(name)
    return None if aside is None else TopicPartition(aside[1], int(aside[2]))


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition of a directory name `topic-partition`, None for any other name, `-delete` included."""
    topic, dash, digits = name.rpartition("-")
    if not dash or not topic or not (digits.isascii() and digits.isdigit()):
        return None
    return TopicPartition(topic, int(digits))
