"""Names of the files and directories of a log: what each is called, and what a name says.

A segment's files share its base offset, written in 20 digits (Kafka's LogFileUtils). Suffixes after the type mark
work that a crash may leave behind: `.deleted` (waiting for removal), `.cleaned` (being written by the cleaner or by a
split, worth nothing yet) and `.swap` (complete, about to replace what it was made from). Nothing here touches a disk.
"""

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


def offset_name(offset: int) -> str:
    """An offset as the 20 digits that file names begin with."""
    return f"{offset:020d}"


def offset_from_name(name: str) -> int | None:
    """The offset that a file name begins with, None when it begins with something else."""
    digits, dot, _ = name.partition(".")
    return int(digits) if dot and digits.isascii() and digits.isdigit() else None


def is_log_name(name: str) -> bool:
    """Whether a name is that of a segment's .log file."""
    return name.endswith(LOG_SUFFIX) and offset_from_name(name) is not None


def is_index_name(name: str) -> bool:
    """Whether a name is that of one of a segment's three indexes."""
    return name.endswith(INDEX_SUFFIXES) and offset_from_name(name) is not None


def partition_directory_name(topic: str, partition: int) -> str:
    """The directory of a partition."""
    return f"{topic}-{partition}"


def deleted_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """The name a partition's directory gets while it waits for removal: `topic-partition.id-delete`, cut to what a
    file system takes (UnifiedLog.logDeleteDirName)."""
    suffix = f"-{partition}.{unique_id}{DELETE_DIRECTORY_SUFFIX}"
    return topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def future_directory_name(topic: str, partition: int, unique_id: str) -> str:
    """The directory of a replica that is on its way to another log directory (UnifiedLog.logFutureDirName)."""
    return f"{topic}-{partition}.{unique_id}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    """The partition whose future replica has a directory of this name; None for anything else."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX):
        return None
    partition, dot, _ = name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")
    return parse_partition_directory(partition) if dot else None


def partition_of_directory(name: str) -> TopicPartition:
    """The partition that a directory belongs to, whatever is to become of it; one of that name for anything else."""
    return parse_partition_directory(name) or parse_future_directory(name) or TopicPartition(name, 0)


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for anything else, directories under deletion included."""
    topic, dash, digits = name.rpartition("-")
    if not dash or not topic or not (digits.isascii() and digits.isdigit()):
        return None
    return TopicPartition(topic, int(digits))
