"""What all three indexes of a segment have in common: a file that may not exist yet and is renamed with its segment."""

from kafkatools.core.log.files import FileSystem, LogFile


class IndexFile:
    """The file of an index, opened on use."""

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self._files = files
        self._file: LogFile | None = None
        self.path = path
        self.base_offset = base_offset

    def release(self) -> None:
        """Let the file go without writing anything."""
        if self._file is not None:
            self._file.close()

    def rename(self, path: str) -> None:
        """Rename the file, if it exists."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.follow(path)

    def follow(self, path: str) -> None:
        """Take note that the file was renamed."""
        self.path = path
        if self._file is not None:
            self._file.path = path
