"""The `.lock` file of a log directory, which keeps other processes out."""

import fcntl
import os

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.format.filenames import LOCK


class DirectoryLock:
    """An exclusive lock on a log directory's `.lock` file, of the same kind as Java's FileChannel.tryLock. Apache Kafka
    and kafkatools keep each other out. The system releases the lock when the process ends, even by a crash."""

    def __init__(self, directory: str) -> None:
        """Create the `.lock` file if missing, and lock it. Raises KafkaStorageError when the lock is not granted,
        usually because another process holds it; OSError when the file cannot be opened."""
        self._descriptor = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise KafkaStorageError(
                f"Failed to acquire lock on file {LOCK} in {directory}. A Kafka instance in another process or thread "
                f"is using this directory."
            ) from None

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
