"""One run of kt console-share-consumer: poll, print, acknowledge, and decide when to end.

Records are acknowledged only after they were written to stdout. A signal ends the run between two polls, so that a
written record is acknowledged too.
"""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.share.acknowledgements import AcknowledgeType
from kafkatools.core.consumer.share.share_consumer import ShareConsumer
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.tools.lines.formatters import MessageFormatter
from kafkatools.tools.lines.interruption import Interruption
from kafkatools.tools.lines.silence import Silence

_FOREVER_MS = 1 << 60
_POLL_MS = 1000


class ConsoleShareConsumer:
    """Prints the records of one topic."""

    def __init__(self, console: Console, args: Args, formatter: MessageFormatter) -> None:
        self._console = console
        self._topic: str = args.topic
        self._formatter = formatter
        self._kind = AcknowledgeType.ACCEPT
        if args.reject or args.release:
            self._kind = AcknowledgeType.REJECT if args.reject else AcknowledgeType.RELEASE
        self._rejects_failed: bool = args.reject_message_on_error
        self._has_events: bool = args.enable_systest_events
        limit, timeout_ms = args.max_messages, args.timeout_ms
        self._limit: int | None = None if limit is None or limit < 0 else limit
        self._idle_ms: int = _FOREVER_MS if timeout_ms is None or timeout_ms < 0 else timeout_ms
        self._count = self._rejected = 0
        self._error: KafkaError | None = None

    def run(self, config: Config) -> ExitStatus:
        """Print records until the run ends, then the total on stderr. Returns INTERRUPTED after Ctrl-C, FAILED when
        records were rejected because they cannot be printed. Raises KafkaError, CommandError and BrokenPipeError."""
        status = ExitStatus.OK
        try:
            with ShareConsumer(config, self._console.clock) as consumer, Interruption(consumer.wakeup) as interruption:
                self._consume(consumer, interruption)
        except KeyboardInterrupt:
            status = ExitStatus.INTERRUPTED
        except BrokenPipeError:
            raise
        except Exception:  # cli.main prints the error, after the number of records printed so far
            self._report_total()
            raise
        if self._has_events:
            self._console.print("shutdown_complete")
        self._report_total()
        return ExitStatus.FAILED if self._rejected and status == ExitStatus.OK else status

    def _consume(self, consumer: ShareConsumer, interruption: Interruption) -> None:
        consumer.subscribe([self._topic])
        now = self._console.clock.now_ms
        deadline = now() + self._idle_ms
        silence = Silence(self._console.error)
        while self._limit is None or self._count < self._limit:
            remaining_ms = deadline - now()
            if remaining_ms <= 0:
                self._check_idle(consumer)
                return
            try:
                fetched = consumer.poll_columns(min(remaining_ms, _POLL_MS))
            except WakeupError:
                fetched = []
            for item in fetched:
                self._print(consumer, item, interruption)
            if self._error is not None:
                raise self._error
            interruption.check()
            silence.update(now(), None if fetched else consumer.connection_problem())
            if fetched:
                deadline = now() + self._idle_ms

    def _check_idle(self, consumer: ShareConsumer) -> None:
        if consumer.missing_topics():
            raise CommandError(f"Topic {self._topic} does not exist")
        problem = consumer.connection_problem()
        if problem is not None:
            raise problem

    def _print(self, consumer: ShareConsumer, item: FetchedColumns, interruption: Interruption) -> None:
        """Write the records of one partition within --max-messages, then acknowledge them; release the others. After a
        record that cannot be printed, without --reject-message-on-error, all further ones are released."""
        out, failed, count = bytearray(), set[int](), 0
        total = item.columns.count
        limit = total if self._limit is None else min(total, self._limit - self._count)
        while count < limit and self._error is None:
            errors: list[KafkaError] = []
            rest = item.cut(count, limit)
            count += self._formatter.write(out, rest, lambda error, errors=errors: bool(errors.append(error)))  # type: ignore[misc]
            if errors:
                failed.add(count - 1)
                self._note_failure(errors[0], item, count - 1)
        self._write(out, interruption)
        self._count += count
        for index in range(total):
            kind = self._kind if index < count else AcknowledgeType.RELEASE
            if index in failed:
                kind = AcknowledgeType.REJECT if self._rejects_failed else AcknowledgeType.RELEASE
            consumer.acknowledge_offset(item.topic_partition, item.columns.offsets[index], kind)

    def _note_failure(self, error: KafkaError, item: FetchedColumns, index: int) -> None:
        place = f"{item.topic}-{item.partition} offset {item.columns.offsets[index]}"
        if self._rejects_failed:
            self._rejected += 1
            self._console.error(f"Error processing message, rejecting this message: {error} ({place})")
        else:
            self._error = type(error)(f"{error} ({place})")

    def _write(self, out: bytearray, interruption: Interruption) -> None:
        if not out:
            return
        interruption.is_writing = True
        try:
            self._console.write(out)
            self._console.flush()
        finally:
            interruption.is_writing = False

    def _report_total(self) -> None:
        self._console.note(f"Processed a total of {self._count} messages")
