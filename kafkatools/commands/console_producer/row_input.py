"""--input-format csv, parquet and avro of kt console-producer: records from a file instead of lines.

A regular file is read twice: first all rows are checked, so that a wrong row is found before any record is sent. Of a
pipe the records before the wrong row are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from kafkatools.console import Console
from kafkatools.core.install_command import install_command
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.existing_partitions import ExistingPartitions
from kafkatools.tools.record_files.record_rows import Rows

FORMATS = ("csv", "parquet", "avro")
_PACKAGES = {"parquet": "pyarrow", "avro": "fastavro"}
_COPY_BYTES = 1 << 20


def ensure_package(form: str) -> None:
    """Raise CommandError if the package that a format needs is missing."""
    from importlib.util import find_spec

    package = _PACKAGES.get(form)
    if package is not None and find_spec(package) is None:
        raise CommandError(f"--input-format {form} needs the Python package {package}: {install_command(form)}")


class RowInput:
    """The records in the console's input. `name` is the file in messages; `partitions()` returns the topic's
    partitions, none when it does not exist."""

    def __init__(
        self, console: Console, topic: str, form: str, name: str, partitions: Callable[[], Sequence[int]]
    ) -> None:
        self._console = console
        self._topic = topic
        self._form = form
        self._name = name
        self._partitions = ExistingPartitions(topic, partitions)

    def check(self) -> None:
        """Read all rows of a regular file and go back to its start; do nothing for a pipe. Raises MalformedLine."""
        if not self._console.is_input_file:
            return
        file = self._console.stdin
        start = file.tell()
        for _ in self._records(file):
            pass
        file.seek(start)

    def records(self) -> Iterator[tuple[int, ProducerRecord]]:
        """Yield the number and record of each row. Raises MalformedLine with file, row and field, after the records
        before the row."""
        if self._form != "parquet" or self._console.is_input_file:
            yield from self._records(self._console.stdin)
            return
        import shutil
        import tempfile

        with tempfile.TemporaryFile() as file:  # the index of a Parquet file is at its end
            shutil.copyfileobj(self._console.stdin, file, _COPY_BYTES)
            file.seek(0)
            yield from self._records(file)

    def _records(self, file: BinaryIO) -> Iterator[tuple[int, ProducerRecord]]:
        for number, record in self._rows(file):
            self._partitions.ensure(record.partition, f"{self._name}, row {number}")
            yield number, record

    def _rows(self, file: BinaryIO) -> Rows:
        if self._form == "csv":
            from kafkatools.tools.record_files.csv_rows import read_csv

            return read_csv(self._topic, self._name, file)
        if self._form == "avro":
            from kafkatools.tools.record_files.avro_rows import read_avro

            return read_avro(self._topic, self._name, file)
        from kafkatools.tools.record_files.parquet_rows import read_parquet

        return read_parquet(self._topic, self._name, file)
