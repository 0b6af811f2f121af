"""kt dump-log: print the contents of segments, indexes and snapshots, without a broker (kafka-dump-log.sh).

The command only reads. Damage is reported on stderr, the dump continues after it, and the exit status is 3.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Command, Option, java_int, rules
from kafkatools.options.schema_registry import SCHEMA_REGISTRY, profile_registry_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkatools.console import Console
    from kafkatools.core.log.dump.damage import Finding
    from kafkatools.core.log.dump.decoders import Decoder
    from kafkatools.core.log.dump.json_lines import JsonLines, Row
    from kafkatools.core.log.dump.options import DumpOptions, FileSlice
    from kafkatools.core.log.dump.text_lines import TextLines
    from kafkatools.options.args import Args
    from kafkatools.tools.lines.slice import Slice

_ERRORS_OF_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_DECODER_OPTIONS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)
_ANY_DECODER = (*_DECODER_OPTIONS, "key-decoder-class", "value-decoder-class")

OPTIONS = (
    Option(
        "--files",
        "Log segments, indexes, snapshots or directories with them, separated by commas.",
        value="FILE,...",
        required=True,
    ),
    Option("--print-data-log", "Print keys and values. Implied by every decoder option."),
    Option("--deep-iteration", "Print every record instead of every batch. Implied by --print-data-log."),
    Option("--skip-record-metadata", "With --print-data-log: leave out offsets, timestamps and other metadata."),
    Option(
        "--max-bytes",
        "Read at most this many bytes of each log segment (.log file).",
        value="BYTES",
        type=java_int,
        default=2147483647,
    ),
    Option("--verify-index-only", "Compare indexes with their log without printing them."),
    Option(
        "--index-sanity-check",
        "Run only the check with which a broker decides at startup whether to rebuild an index, for index files.",
    ),
    Option(
        "--max-message-size",
        "Largest batch in bytes that is read to check an offset index entry; a larger one is reported as a problem.",
        value="BYTES",
        type=java_int,
        default=5242880,
    ),
    Option("--offsets-decoder", "Decode records of __consumer_offsets."),
    Option("--transaction-log-decoder", "Decode records of __transaction_state."),
    Option("--cluster-metadata-decoder", "Decode records of __cluster_metadata and its snapshots."),
    Option("--remote-log-metadata-decoder", "Decode records of __remote_log_metadata."),
    Option("--share-group-state-decoder", "Decode records of __share_group_state."),
    Option(
        "--key-decoder-class",
        "Decoder of keys: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder (base64).",
        value="CLASS",
        optional_value=True,
        implied=_STRING_DECODER,
        default=_STRING_DECODER,
    ),
    Option(
        "--value-decoder-class",
        "Decoder of values: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder (base64).",
        value="CLASS",
        optional_value=True,
        implied=_STRING_DECODER,
        default=_STRING_DECODER,
    ),
    Option(
        "--since",
        "Dump only from the first record at or after this time: -1h, 2026-01-31T13:45 (UTC unless it has a zone), or "
        "milliseconds since 1970 (ten digits: seconds).",
        value="TIME",
        ours=True,
    ),
    Option("--until", "Dump only records before this time.", value="TIME", ours=True),
    Option(
        "--last",
        "Dump only the last N records of the log segments of each directory.",
        value="N",
        type=java_int,
        ours=True,
    ),
    Option(
        "--offset",
        "Dump only these offsets: 100 (one record), 100: (from there on), 100:200 (without 200), -5, +5, -100:end, "
        "@-1h:@-30m.",
        value="OFFSET",
        ours=True,
    ),
    SCHEMA_REGISTRY._replace(
        about="Decode keys and values by the schemas of this registry. Credentials: USER:PASSWORD@ in front of the "
        "host, or the settings of the profile. What cannot be decoded is shown as text; the exit status is then 1.",
    ),
    Option(
        "--decode",
        "What to decode by the schema registry: key, value or both (default). Without --schema-registry the setting "
        "schema.registry.url of the profile names the registry.",
        value="PART",
        choices=("key", "value", "both"),
        ours=True,
    ),
    Option("--stop-at-damage", "Stop at damage at which Kafka's tool would stop with an exception.", ours=True),
    Option("--salvage", "Also print batches after the point where Kafka's tool stops in a damaged log.", ours=True),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt dump-log. Returns FAILED for a file that cannot be read, else FINDINGS for damage. Raises UsageError."""
    options = _dump_options(args)
    part = None
    if any(args.has_option(name) for name in _SLICE_OPTIONS):
        part = _slice(args, console.clock.wall_ms())
    if args.schema_registry is None and args.decode is None:
        return _Run(console, options, as_json=args.json, part=part).every(_names(args.files))
    from dataclasses import replace

    from kafkatools.tools.schemas.dump_decoder import SchemaDumpDecoder
    from kafkatools.tools.schemas.steps import schema_decoders

    if args.decode not in (None, "key", "value", "both"):
        raise UsageError(f"--decode may be key, value, both, not {args.decode}")
    for name in _ANY_DECODER:
        if args.has_option(name):
            raise UsageError(f"--{name} cannot be used with --schema-registry or --decode")
    settings = profile_registry_settings(args)
    notices: list[str] = []  # printed at the end, since records are decoded in the middle of a line
    decoders = schema_decoders(settings, args.schema_registry, console.home, console.clock, notices.append)
    decoder = SchemaDumpDecoder(decoders, keys=args.decode != "value", values=args.decode != "key")
    options = replace(options, decoder=lambda: decoder, is_plain_text=False, print_contents=True, deep=True)
    run = _Run(console, options, as_json=args.json, part=part, on_file=decoder.begin_file)
    status = run.every(_names(args.files))
    failures = decoder.failures()
    for line in (*notices, *failures):
        console.error(line)
    return ExitStatus.FAILED if failures else status


def _slice(args: Args, now_ms: int) -> Slice:
    """Return the slice of --since, --until, --last or --offset. Raises UsageError."""
    from kafkatools.options.slice_options import range_of, slice_of
    from kafkatools.tools.lines.slice import Anchor, Place, Slice

    for option in _NOT_WITH_SLICE:
        if args.has_option(option):
            raise UsageError(f"--since, --until, --last and --offset cannot be used with --{option}")
    if args.offset is None:
        return slice_of(args, now_ms)
    if args.offset.isascii() and args.offset.isdigit():
        offset = int(args.offset)
        return Slice(Place(Anchor.OFFSET, offset), Place(Anchor.OFFSET, offset + 1))
    return range_of(args.offset, now_ms)


def _dump_options(args: Args) -> DumpOptions:
    from kafkatools.core.log.dump.options import DumpOptions

    if args.max_bytes < 0:
        raise UsageError(f"Invalid size: {args.max_bytes}: --max-bytes cannot be negative")
    prints = args.print_data_log or any(args.has_option(name) for name in _ANY_DECODER)
    return DumpOptions(
        print_contents=prints,
        deep=prints or args.deep_iteration,
        skip_metadata=args.skip_record_metadata,
        verify_index_only=args.verify_index_only,
        sanity_check_only=args.index_sanity_check,
        max_bytes=args.max_bytes,
        max_message_size=args.max_message_size,
        decoder=_decoder(args) if prints else None,
        is_plain_text=not any(args.has_option(name) for name in _DECODER_OPTIONS)
        and args.key_decoder_class == args.value_decoder_class == _STRING_DECODER,
        stop_at_damage=args.stop_at_damage,
        salvage=args.salvage,
        judges_by_neighbours=True,
    )


def _decoder(args: Args) -> Callable[[], Decoder]:
    """Return a factory of the decoder. It raises UsageError only when a log is dumped, as Kafka's tool does."""

    def make() -> Decoder:
        from kafkatools.core.log.dump import decoders

        for name in _DECODER_OPTIONS:
            if args.has_option(name):
                return decoders.internal_decoder(name)
        pair = [decoders.value_decoder(name) for name in (args.key_decoder_class, args.value_decoder_class)]
        if pair[0] is None or pair[1] is None:
            names = ", ".join(decoders.VALUE_DECODERS)
            raise UsageError("Failed to load decoder class", f"Decoders: {names}.")
        return decoders.plain_decoder(pair[0], pair[1])

    return make


def _names(text: str) -> list[str]:
    """Split --files at commas. Like Java's split, drops empty names at the end. Raises UsageError."""
    names = text.split(",")
    while text and names and not names[-1]:
        names.pop()
    if not names:
        raise UsageError(f"--files names no file: '{text}'")
    return names


_SLICE_OPTIONS = ("since", "until", "last", "offset")
_NOT_WITH_SLICE = ("max-bytes", "verify-index-only", "index-sanity-check")


class _Run:
    """One run of kt dump-log: output, error reports and exit status. `on_file` gets the path of each file before it is
    dumped."""

    def __init__(
        self,
        console: Console,
        options: DumpOptions,
        *,
        as_json: bool,
        part: Slice | None = None,
        on_file: Callable[[str], None] = lambda path: None,
    ) -> None:
        from kafkatools.core.log.dump.file_dump import FileDump

        self._console = console
        self._slice = part
        self._on_file = on_file
        self._as_json = as_json
        self._has_findings = False
        self._has_failed = False
        self._encode: Callable[[Row], str] | None = None
        self._stops = options.stop_at_damage
        self._output = self._lines(options)
        self._dump = FileDump(options, self._output, self._report)

    def _lines(self, options: DumpOptions) -> TextLines | JsonLines:
        if self._as_json:
            from kafkatools.core.log.dump.json_lines import JsonLines

            return JsonLines(options, self._write_row, self._console.print_lines)
        from kafkatools.core.log.dump.text_lines import TextLines
        from kafkatools.output import visible

        return TextLines(options, self._console.stdout.write, visible if self._console.is_terminal else None)

    def _write_row(self, row: Row) -> None:
        if self._encode is None:
            import json

            from kafkatools.core.control_characters import json_safe
            from kafkatools.output import json_bytes

            encoder = json.JSONEncoder(
                ensure_ascii=False, separators=(",", ":"), check_circular=False, default=json_bytes
            )
            self._encode = lambda row: json_safe(encoder.encode(row))
        self._console.print(self._encode(row))

    def _report(self, finding: Finding) -> None:
        self._has_findings = True
        if self._as_json:
            from kafkatools.core.log.dump.json_lines import finding_row

            self._write_row(finding_row(finding))
            return
        if finding.headline:
            self._console.error(finding.headline)
        self._console.error(finding.text())

    def every(self, names: Iterable[str]) -> ExitStatus:
        """Dump files, and the files in directories, then print the summary of Kafka's tool. Returns FAILED for a file
        that cannot be read, else FINDINGS for damage. With --stop-at-damage it ends at the first of these, without a
        summary."""
        from kafkatools.core.log.dump.file_dump import StoppedAtDamage

        try:
            paths = [path for name in names for path in self._files(name)]
            is_done = self._dump_all(paths) if self._slice is None else self._dump_slices(paths, self._slice)
            if not is_done:
                return ExitStatus.FAILED
        except StoppedAtDamage:
            return ExitStatus.FINDINGS
        summary = self._dump.summary
        if not self._as_json:
            for line in summary.lines():
                self._console.error(line)
        if self._has_failed:
            return ExitStatus.FAILED
        return ExitStatus.FINDINGS if self._has_findings or summary.has_damage else ExitStatus.OK

    def _files(self, name: str) -> Sequence[str]:
        from kafkatools.core.log.dump.file_kinds import files_in

        if not os.path.isdir(name):
            if self._slice is not None and not os.path.lexists(name):
                raise CommandError(f"{name}: no such file")
            if self._slice is not None and not name.endswith(".log"):
                raise UsageError(f"{name} is not a log segment: --since, --until, --last and --offset need .log files")
            return [name]
        paths = files_in(name)
        if not paths:
            self._fail(f"{name}: no segments, indexes or snapshots in this directory", name)
        return paths

    def _dump_all(self, paths: Sequence[str]) -> bool:
        """Dump the files; False when --stop-at-damage ends the run at a file that cannot be read."""
        sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for path in paths]
        with self._console.progress(
            "Reading", sum(sizes), measure=lambda: self._dump.position, is_bytes=True, prints=True
        ) as progress:
            for path, size in zip(paths, sizes, strict=True):
                self._dump_file(path)
                progress.advance(size)
                if self._has_failed and self._stops:
                    return False
        return True

    def _dump_slices(self, paths: Sequence[str], part: Slice) -> bool:
        """Dump the parts of the segments that belong to a slice; False when --stop-at-damage ends the run at a file
        that cannot be read."""
        from kafkatools.core.errors import KafkaError
        from kafkatools.core.log.format.filenames import is_log_name
        from kafkatools.tools.lines.file_slices import slices_of

        for path in paths:
            if not os.path.isfile(path):
                raise CommandError(f"{path}: no such file")
        logs = [path for path in paths if is_log_name(os.path.basename(path))]
        try:
            parts = slices_of(logs, part, self._console.note)
        except KafkaError as problem:
            raise CommandError(str(problem)) from None
        if not parts:
            self._console.note("No record belongs to the slice")
        for path, file_slice in parts.items():
            self._dump_file(path, file_slice)
            if self._has_failed and self._stops:
                return False
        return True

    def _dump_file(self, path: str, part: FileSlice | None = None) -> None:
        from kafkatools.core.log.dump.damage import Damage

        self._on_file(path)
        try:
            if part is not None:
                self._output.records = part.records
                self._dump.dump_slice(path, part)
            elif not self._dump.dump(path):
                self._fail(f"Ignoring unknown file {path}", path)
                if not os.path.lexists(path):
                    self._console.note(f"{path}: no such file or directory")
        except BrokenPipeError:
            raise
        except FileNotFoundError as problem:
            self._fail(f"{problem.filename}: no such file", path)
        except OSError as problem:
            if problem.filename is None and problem.errno in _ERRORS_OF_WRITES:
                raise  # of stdout, not of the file
            self._fail(f"{problem.filename or path}: {problem.strerror}", path)
        except Damage as problem:
            is_there = os.path.lexists(path)  # an invalid name raises Damage before the file is opened
            self._fail(f"{path}: {problem if is_there else 'no such file'}", path)

    def _fail(self, message: str, path: str) -> None:
        self._has_failed = True
        self._console.error(message, "FILE", file=path)


COMMAND = Command(
    name="dump-log",
    summary="Show what is in log segments, indexes and snapshots, sound or damaged.",
    options=OPTIONS,
    run=run,
    rules=(
        rules.Refusal(
            "offset", ("since", "until", "last"), "Options {option} and {other} cannot be specified together."
        ),
    ),
    examples=(
        "kt dump-log --files 00000000000000000000.log --print-data-log",
        "kt dump-log --files /var/lib/kafka/orders-0 --json",
        "kt dump-log --files /var/lib/kafka/orders-0 --print-data-log --offset 1000:1010",
    ),
)
