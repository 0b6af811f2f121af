"""One run of kt console-producer: read lines, send them, report the failed ones and the counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kafkatools.console import Console
from kafkatools.core.config import Config
from kafkatools.core.errors import IllegalState, KafkaError, RecordTooLarge
from kafkatools.core.producer.broker_watch import BrokerWatch
from kafkatools.core.producer.first_contact import reason_not_to_start
from kafkatools.core.producer.futures import RecordMetadata, RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_batch import value_size_upper_bound
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.columns import RowColumns
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.lines.line_reader import LineFormat, LineReader, MalformedLine
from kafkatools.tools.lines.record_transactions import RecordTransactions
from kafkatools.tools.lines.tally import LostLines, Tally, is_hopeless_cause

if TYPE_CHECKING:
    from kafkatools.commands.console_producer.row_input import RowInput
    from kafkatools.tools.lines.json_input import JsonInput
    from kafkatools.tools.schemas.encoded_input import EncodedInput
    from kafkatools.tools.schemas.encoders import Encoder

_INTERRUPTED_CLOSE_MS = 5_000
_PIPE_BYTES = 1 << 20
_ROWS = 1000
_REPORT_INTERVAL_MS = 60_000


def _size(length: int) -> str:
    return "null" if length < 0 else f"{length} bytes"


class ConsoleProducer:
    """One run of kt console-producer, from its first line to the report."""

    def __init__(self, console: Console, args: Args, config: Config, line_format: LineFormat, form: str) -> None:
        self._console = console
        self._topic: str = args.topic
        self._is_json: bool = args.json
        self._is_sync: bool = args.sync
        self._config = config
        self._format = line_format
        self._producer: Producer
        self._json: JsonInput | None = None
        self._encoding: EncodedInput | None = None
        self._encoders: tuple[Encoder | None, Encoder | None] = None, None
        self._rows: RowInput | None = None
        self._has_all_rows = False
        self._reader = self._line_reader(config.max_request_size, form)
        if form not in ("lines", "json"):
            from kafkatools.commands.console_producer.row_input import RowInput

            name = args.input or "Standard input"
            self._rows = RowInput(console, self._topic, form, name, self._existing_partitions)
        self._tally = Tally(config.transactional_id is not None)
        self._transaction_records: int = args.transaction_records or 0
        self._transactions: RecordTransactions | None = None
        self._stopped: Exception | None = None
        self._is_interrupted = False
        self._last_line = 0
        self._reported_ms = console.clock.now_ms()
        self._has_prompt = console.is_input_terminal and console.is_terminal

    def _line_reader(self, record_bytes: int, form: str) -> LineReader:
        if form != "json":
            return LineReader(self._format, record_bytes)
        from kafkatools.tools.lines.json_input import JsonInput, longest_line

        reader = LineReader(self._format, longest_line(record_bytes))
        self._json = JsonInput(self._topic, reader, self._existing_partitions, self._fail_line)
        return reader

    def encode_by(self, key: Encoder | None, value: Encoder | None) -> None:
        """Encode the keys, the values or both of all records before they are sent."""
        from kafkatools.tools.schemas.encoded_input import EncodedInput

        self._encoders = key, value
        self._encoding = EncodedInput(key, value, self._fail_line if self._format.ignore_error else None)

    def run(self) -> ExitStatus:
        """Send all input, wait for its acknowledgements, and print the report.

        Returns INTERRUPTED after Ctrl-C, FAILED if a record failed or the run ended early. A KafkaError outside of
        transactions that is not about a record is raised after the report.
        """
        producer = self._producer = Producer(self._config, self._console.clock)
        try:
            try:
                self._stopped = reason_not_to_start(producer.sender, producer.clock, producer.config.max_block_ms)
                sender = producer.sender
                sender.watch = BrokerWatch(sender.client, sender.metadata, self._console.note)
                self._check_file_partitions()
                self._check_file_encoding()
                self._start_transactions(producer)
                self._pump(producer)
                self._end_transactions()
                is_open = self._transactions is not None and self._transactions.is_open
                producer.close(_INTERRUPTED_CLOSE_MS if is_open else None)
            except KeyboardInterrupt:
                self._is_interrupted = True
                if self._has_prompt:
                    self._console.write(b"\n")
                self._break_off_transactions()
                producer.close(_INTERRUPTED_CLOSE_MS)
        except KeyboardInterrupt:
            self._is_interrupted = True
            producer.close(0)
        finally:
            producer.close(0)
            self._report()
        if self._is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.FAILED if self._tally.failed_count or self._stopped else ExitStatus.OK

    # -- reading --

    def _pump(self, producer: Producer) -> None:
        if self._rows is not None:
            self._pump_rows(producer, self._rows)
            return
        read = self._input()
        has_single_records = (
            self._json is not None or self._encoding is not None or self._format.parse_headers or self._is_sync
        )
        send = self._send_records if has_single_records else self._send_rows
        count = 1
        with self._console.input_progress("Sending") as progress:
            while count and self._stopped is None:
                if self._has_prompt:
                    self._console.write(b">")
                    self._console.flush()
                count = read(self._reader.room())
                self._reader.filled(count)
                progress.advance(count)
                self._try_send(partial(send, producer))
        if self._has_prompt:
            self._console.write(b"\n")

    def _pump_rows(self, producer: Producer, rows: RowInput) -> None:
        records = rows.records()
        while self._stopped is None:
            row = self._last_line
            self._try_send(partial(self._send_each, producer, islice(records, _ROWS)))
            if self._last_line == row and self._stopped is None:
                self._has_all_rows = True
                return

    def _try_send(self, send: Callable[[], None]) -> None:
        """Send what was read and report failures; `_stopped` becomes the error that ends the run."""
        try:
            send()
        except MalformedLine as error:
            self._stopped = error
        except KafkaError as error:
            if self._transactions is None:
                raise
            self._stopped = error
        self._report_oversized()
        self._report_failures()
        if self._tally.unplaced is not None:
            self._stopped = self._tally.unplaced
        elif self._transactions is not None and self._stopped is None:
            self._stopped = self._tally.first_failure

    def _input(self) -> Callable[[memoryview], int]:
        """Return a function that reads input into a buffer and returns the number of bytes, 0 at the end."""
        stdin = self._console.stdin
        self._console.enlarge_input_pipe(_PIPE_BYTES)
        read: Callable[[memoryview], int | None] = getattr(stdin, "readinto1", None) or stdin.readinto  # type: ignore[attr-defined]
        return lambda room: read(room) or 0

    # -- sending --

    def _send_rows(self, producer: Producer) -> None:
        for rows in self._reader.rows():
            line = self._reader.line_number - rows.count + 1
            if self._transactions is None:
                producer.send_columns(self._topic, rows, callback=self._rows_callback(rows, line))
                self._last_line = self._reader.line_number
                continue
            self._report_oversized()
            self._send_in_transactions(producer, self._transactions, rows, line)

    def _send_in_transactions(
        self, producer: Producer, transactions: RecordTransactions, rows: RowColumns, line: int
    ) -> None:
        def send(part: RowColumns) -> None:
            nonlocal line
            producer.send_columns(self._topic, part, callback=self._rows_callback(part, line))
            line += part.count

        transactions.send_rows(rows, send)

    def _rows_callback(self, rows: RowColumns, first_line: int) -> Callable[[RowsRun], None]:
        """Return the acknowledgement callback of a column batch. It keeps only row lengths, for error messages."""
        tally = self._tally
        value_lengths, key_lengths = rows.value_lengths, rows.key_lengths

        def on_acknowledged(run: RowsRun) -> None:
            if run.error is None:
                tally.succeeded(len(run.rows))
                return
            numbers = run.rows
            lines = (first_line + min(numbers), first_line + max(numbers), len(numbers))
            self._fail(lines, run.partition, run.error, lambda index: describe(numbers[index]))

        def describe(row: int) -> str:
            return self._describe(-1 if key_lengths is None else key_lengths[row], value_lengths[row])

        return on_acknowledged

    def _describe(self, key_length: int, value_length: int) -> str:
        sizes = f"key: {_size(key_length)}, value: {_size(value_length)}"
        return f"Error when sending message to topic {self._topic} with {sizes}"

    def _send_records(self, producer: Producer) -> None:
        self._send_each(producer, self._numbered_records())

    def _send_each(self, producer: Producer, records: Iterable[tuple[int, ProducerRecord]]) -> None:
        transactions = self._transactions
        for number, record in records:
            with nullcontext() if transactions is None else transactions.sending():
                future = producer.send(record, self._record_callback(record, number))
            self._last_line = number
            if self._is_sync:
                try:
                    future.get()
                except KafkaError as error:
                    self._stopped = error
                    return
            if self._tally.unplaced is not None:
                return
            if transactions is not None:
                self._report_oversized()
                transactions.commit_if_full()

    def _numbered_records(self) -> Iterable[tuple[int, ProducerRecord]]:
        """Return the records of the lines read so far, encoded if there are schemas."""
        records = self._json.records() if self._json is not None else self._line_records(self._reader)
        return records if self._encoding is None else self._encoding.encode(records)

    def _line_records(self, reader: LineReader) -> Iterator[tuple[int, ProducerRecord]]:
        for key, value, headers in reader.records():
            yield reader.line_number, ProducerRecord(self._topic, value, key, headers=headers)

    def _record_callback(
        self, record: ProducerRecord, number: int
    ) -> Callable[[RecordMetadata, Exception | None], None]:
        tally = self._tally

        def on_acknowledged(metadata: RecordMetadata, error: Exception | None) -> None:
            if error is None:
                tally.succeeded(1)
                return
            key, value = record.key, record.value
            sizes = (-1 if key is None else len(key), -1 if value is None else len(value))
            self._fail((number, number, 1), metadata.partition, error, lambda index: self._describe(*sizes))

        return on_acknowledged

    def _fail(
        self, lines: tuple[int, int, int], partition: int, error: Exception, describe: Callable[[int], str]
    ) -> None:
        """Count and report failed records. `lines`: first line, last line, number of records.

        Errors of the cluster are reported as ranges of lines, other errors one by one.
        """
        is_unplaced = partition < 0
        is_hopeless = is_unplaced and is_hopeless_cause(error)
        if is_hopeless and self._tally.unplaced is None:
            self._tally.unplaced = error
        is_broken_off = self._is_interrupted and isinstance(error, IllegalState)  # the producer's close timed out
        if not (is_hopeless or is_broken_off or getattr(error, "retriable", False)):
            self._tally.fail(lines[2], error, describe)
            return
        problem = self._connection_problem(partition)
        if is_broken_off:
            error = problem or IllegalState("kt was interrupted before a broker acknowledged them")
        if problem is not None:
            key, cause, is_unplaced = "connection", str(problem), False
        else:
            key, cause = getattr(error, "name", ""), str(error)
        self._tally.fail_lines(LostLines(key, self._topic, describe(0), error, cause, is_unplaced, *lines))

    def _connection_problem(self, partition: int) -> Exception | None:
        """Return the connection error of a partition's leader, or of all brokers while it has no leader, else None.

        Before the first contact with a broker it returns None, because the record's own error names the problem then.
        """
        sender = self._producer.sender
        if not sender.metadata.update_version:
            return None
        leader = sender.metadata.cluster.leader_id(self._topic, partition)
        return sender.client.cluster_error() if leader is None else sender.client.connection_error(leader)

    def _fail_line(self, error: Exception) -> None:
        self._tally.fail(1, error, lambda index: self._describe(-1, -1))

    # -- transactions --

    def _start_transactions(self, producer: Producer) -> None:
        if self._config.transactional_id is None or self._stopped is not None:
            return
        self._transactions = RecordTransactions(producer, self._transaction_records, self._tally)
        try:
            self._transactions.start()
        except KafkaError as error:
            self._stopped = error

    def _end_transactions(self) -> None:
        if self._transactions is None:
            return
        if self._stopped is None:
            try:
                self._transactions.commit()
            except KafkaError as error:
                self._stopped = error
        if self._stopped is not None:
            self._break_off_transactions()

    def _break_off_transactions(self) -> None:
        """Abort the open transaction, or complete a commit in progress, within 5 s. An error is printed."""
        if self._transactions is None:
            return
        try:
            self._transactions.break_off(_INTERRUPTED_CLOSE_MS)
        except KafkaError as error:
            self._report_failures(is_end=True)
            self._console.error(f"The open transaction could not be ended: {error}", error.name)

    # -- reporting --

    def _report_oversized(self) -> None:
        """Report lines that exceed max.request.size in any case, which the reader does not keep."""
        if not self._reader.oversized:
            return
        limit = self._config.max_request_size
        for _, length in self._reader.oversized:
            error = RecordTooLarge(
                f"The message is {value_size_upper_bound(length)} bytes when serialized which is larger than {limit}, "
                "which is the value of the max.request.size configuration."
            )
            self._tally.fail(1, error, lambda index, length=length: self._describe(-1, length))  # type: ignore[misc]
        self._reader.oversized.clear()

    def _report_failures(self, *, is_end: bool = False) -> None:
        """Print new failures. Failures that still go on are printed once a minute, at the end, and after each line of
        an interactive input."""
        now_ms = self._console.clock.now_ms()
        is_due = is_end or self._has_prompt or now_ms - self._reported_ms >= _REPORT_INTERVAL_MS
        if is_due:
            self._reported_ms = now_ms
        for kind, message in self._tally.take_messages(is_end=is_due):
            self._console.error(message, kind)

    def _existing_partitions(self) -> list[int]:
        """Return the partitions of the topic; an empty list if it does not exist. Raises KafkaError.

        The admin client asks, because a metadata request of the producer would create the topic.
        """
        from kafkatools.core.admin.client import AdminClient
        from kafkatools.core.admin.topics import describe_topics
        from kafkatools.core.config import ADMIN

        settings = {name: value for name, value in self._config.explicit().items() if name in ADMIN}
        with AdminClient(self._config["bootstrap.servers"], settings, self._console.clock) as admin:
            description = describe_topics(admin, names=[self._topic])[self._topic]
        if description.error is not None and description.error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise description.error
        return [part.partition for part in description.partitions]

    def _check_file_partitions(self) -> None:
        """Check a file on standard input before its first record is sent: all rows of CSV, Parquet and Avro, the
        partitions of JSON. A wrong row or partition stops the run. Does nothing for a pipe, or if ignore.error skips
        invalid lines."""
        if self._rows is not None and self._stopped is None:
            try:
                self._rows.check()
            except MalformedLine as error:
                self._stopped = error
        if self._json is None or self._stopped is not None or self._format.ignore_error:
            return
        if self._console.is_input_file:
            try:
                self._json.check_partitions(self._console.stdin)
            except MalformedLine as error:
                self._stopped = error

    def _check_file_encoding(self) -> None:
        """Encode all records of a file on standard input before the first one is sent. An invalid one stops the run.
        Does nothing for a pipe, or if ignore.error skips invalid lines."""
        is_checked = self._encoding is not None and self._console.is_input_file and not self._format.ignore_error
        if not is_checked or self._stopped is not None:
            return
        from kafkatools.tools.lines.json_input import JsonInput
        from kafkatools.tools.schemas.encoded_input import EncodedInput

        stdin, encoding = self._console.stdin, EncodedInput(*self._encoders)
        reader = LineReader(self._format, self._reader.max_line_bytes)
        json_input = JsonInput(self._topic, reader, self._existing_partitions, self._fail_line)
        start, count = stdin.tell(), 1
        try:
            while count:
                count = stdin.readinto(reader.room())  # type: ignore[attr-defined]
                reader.filled(count)
                encoding.encode(json_input.records() if self._json is not None else self._line_records(reader))
        except MalformedLine as error:
            self._stopped = error
        finally:
            stdin.seek(start)

    def _report(self) -> None:
        tally = self._tally
        tally.abort()
        self._report_failures(is_end=True)
        if tally.hidden > 0:
            self._console.error(f"{tally.hidden} more records failed")
        if self._stopped is not None and not tally.is_reported(self._stopped):
            status = ExitStatus.INTERRUPTED if self._is_interrupted else ExitStatus.FAILED
            self._console.error(str(self._stopped), getattr(self._stopped, "name", "FAILED"), exit=int(status))
        if self._has_unsent_lines():
            unit = "line" if self._rows is None else "row"
            self._console.note(f"{unit.capitalize()}s after {unit} {self._last_line} were not sent")
        counts = {"sent": tally.sent_count, "failed": tally.failed_count}
        if self._transactions is not None:
            outcome = self._transactions.outcome()
            if outcome is not None:
                self._console.error(outcome[1], outcome[0])
            counts["aborted"] = tally.aborted_count
        if self._is_json:
            self._console.print_json(counts)
        self._console.note(", ".join(f"{count} {label}" for label, count in counts.items()))

    def _has_unsent_lines(self) -> bool:
        """Return whether an interrupt, a lost cluster or the first failure of --sync left input lines unsent. False
        with transactions, which have their own report."""
        is_lost = self._tally.unplaced is not None or (self._is_sync and self._tally.first_failure is not None)
        if self._transactions is not None or not (is_lost or self._is_interrupted):
            return False
        if self._rows is not None:
            return not self._has_all_rows
        if self._last_line < self._reader.line_number or self._reader.has_unread_lines:
            return True
        return is_lost and self._console.has_more_input()
