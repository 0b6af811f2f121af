"""`.lock`: one process at a time in a log directory."""

import fcntl
import os

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.format.filenames import LOCK


class DirectoryLock:
    """The lock of a log directory, of the same kind as Java's FileChannel.tryLock: Apache Kafka and this program keep
    each other out. It is let go when the process ends, however it ends."""

    def __init__(self, directory: str) -> None:
        """Take the lock; raises KafkaStorageError when another process has it."""
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
        """Let another process have the directory; more than once is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
