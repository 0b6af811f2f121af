"""Where kt console-consumer writes and in which format: --output-format, --output, --force.

Without --output records go to stdout. The end of a format, such as a Parquet footer, is written when the run reaches
its end; Ctrl-C is the end of a run that has no other. A run that ends early leaves stdout without it, and its files
under the names of partial files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkatools.console import Console
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options import Args
from kafkatools.options.common import format_of_file
from kafkatools.tools.lines.formatters import MessageFormatter
from kafkatools.tools.lines.record_printer import EndedFormatter, RecordPrinter

if TYPE_CHECKING:
    from kafkatools.tools.record_files.output_files import RecordFiles

FORMATS = ("text", "json", "csv", "parquet", "avro")
_SUFFIXES = {"text": ".txt", "json": ".jsonl", "csv": ".csv", "parquet": ".parquet", "avro": ".avro"}
_PACKAGES = {"parquet": "pyarrow", "avro": "fastavro"}
_OF_TEXT = (
    "format",
    "formatter",
    "formatter_property",
    "formatter_config",
    "property",
    "key_deserializer",
    "value_deserializer",
)
_OFFSET_OF_KCAT = re.compile(r"beginning|end|stored|-?[0-9]+|[se]@[0-9]+")
_ROW_GROUP_BYTES = 32 << 20
_LEAST_ROW_GROUP_BYTES = 1 << 20


def output_format(args: Args) -> str:
    """Return the format of records: that of --output-format, else json with --json, else text with an option of text,
    else that of the extension of --output, else text. Raises UsageError."""
    name: str | None = args.output_format
    if name is None and args.json:
        return "json"
    if name is None:
        is_text = any(map(args.has_option, _OF_TEXT))
        return "text" if is_text else format_of_file(args.output) or "text"
    if name not in FORMATS:
        raise UsageError(f"Invalid value of --output-format: '{name}'. The formats are {', '.join(FORMATS)}")
    if args.json and name != "json":
        raise UsageError(f"--json and --output-format {name} contradict each other")
    allowed = {"text": _OF_TEXT, "json": _OF_TEXT[1:]}.get(name, ())
    for option in _OF_TEXT:
        if option not in allowed and args.has_option("--" + option.replace("_", "-")):
            raise UsageError(f"--output-format {name} cannot be used with --{option.replace('_', '-')}")
    return name


def check_output(console: Console, args: Args, settings: Mapping[str, str]) -> None:
    """Raise UsageError for an output that the options rule out, CommandError if a package is missing."""
    name = output_format(args)
    if args.force and args.output is None:
        raise UsageError("--force needs --output")
    if args.output == "":
        raise UsageError("--output needs the name of a file")
    if args.output is not None and _OFFSET_OF_KCAT.fullmatch(args.output):
        raise UsageError(
            f"--output (-o) takes a file, not '{args.output}'",
            f"kcat's -o is --offset here, see docs/coming-from.md. A file of this name: -o ./{args.output}",
        )
    if args.output is None and name in _PACKAGES and console.is_terminal:
        raise UsageError(
            f"--output-format {name} is binary and cannot be shown on a terminal",
            "Add --output FILE, or redirect stdout.",
        )
    commits = settings.get("group.id") and settings.get("enable.auto.commit", "true").strip().lower() != "false"
    if commits and (args.output is not None or name in _PACKAGES):
        raise UsageError(
            "With --group, offsets would be committed before the output file is complete",
            "Read without --group, or add --command-property enable.auto.commit=false.",
        )
    if name in _PACKAGES:
        _ensure_package(name, _PACKAGES[name])


def _ensure_package(name: str, package: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise CommandError(f"--output-format {name} needs the Python package {package}: {install_command(name)}")


def table_formatter(name: str, row_group_bytes: Callable[[], int] = lambda: _ROW_GROUP_BYTES) -> MessageFormatter:
    """Return a formatter for csv, parquet or avro."""
    if name == "csv":
        from kafkatools.tools.record_files.csv_formatter import CsvFormatter

        return CsvFormatter()
    if name == "avro":
        from kafkatools.tools.record_files.avro_formatter import AvroFormatter

        return AvroFormatter()
    from kafkatools.tools.record_files.parquet_formatter import ParquetFormatter

    return ParquetFormatter(row_group_bytes)


def record_files(args: Args, new_text_formatter: Callable[[], MessageFormatter]) -> RecordFiles:
    """Return the files of --output, which are not created yet."""
    from kafkatools.tools.record_files.output_files import RecordFiles

    path, name = args.output, output_format(args)
    is_directory = path.endswith(os.sep) or os.path.isdir(path)

    def new_formatter() -> MessageFormatter:
        if name in ("text", "json"):
            return new_text_formatter()
        return table_formatter(name, lambda: max(_LEAST_ROW_GROUP_BYTES, _ROW_GROUP_BYTES // files.count))

    files = RecordFiles(path, _SUFFIXES[name] if is_directory else None, new_formatter, bool(args.force))
    return files


class Output:
    """The output of one run, on stdout or in `files`: its printer, its beginning and its end."""

    def __init__(self, console: Console, printer: RecordPrinter, files: RecordFiles | None) -> None:
        self._console = console
        self.printer = printer
        self._files = files

    @property
    def has_end(self) -> bool:
        """Whether something has to be written or renamed at the end of the run."""
        return self._files is not None or isinstance(self.printer.formatter, EndedFormatter)

    def ensure_reader(self) -> None:
        """Raise BrokenPipeError when records go to a pipe whose reader is gone."""
        if self._files is None:
            self._console.ensure_reader()

    def open(self) -> None:
        """Create the partial file. Raises CommandError if a file would be replaced, and OSError."""
        if self._files is not None:
            self._files.open()

    def complete(self) -> None:
        """End the output of a run that reached its end. Raises CommandError, OSError or BrokenPipeError."""
        if self._files is not None:
            self._files.complete()
            return
        out = bytearray()
        self.printer.finish(out)
        if out:
            self._console.write(out)
            self._console.flush()

    def abandon(self) -> None:
        """Keep the partial files of a run that ended early, and name them on stderr."""
        if self._files is None:
            return
        try:
            kept = self._files.abandon()
        except OSError as error:
            self._console.error(f"The partial output file cannot be completed: {error}")
            return
        for path in kept:
            self._console.note(f"The run ended early; the records so far are in {path}")
