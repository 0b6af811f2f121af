"""The common base of a segment's three index files: lazily opened, and renamed together with the segment."""

from kafkatools.core.log.files import FileSystem, LogFile


class IndexFile:
    """An index file of a segment, opened on first use. It may not exist."""

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self._files = files
        self._file: LogFile | None = None
        self.path = path
        self.base_offset = base_offset

    def release(self) -> None:
        """Close the file without writing pending entries."""
        if self._file is not None:
            self._file.close()

    def rename(self, path: str) -> None:
        """Rename the index file on disk if it exists, and use the new path from now on."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.follow(path)

    def follow(self, path: str) -> None:
        """Use a new path, after the index file or its directory was renamed on disk."""
        self.path = path
        if self._file is not None:
            self._file.path = path
