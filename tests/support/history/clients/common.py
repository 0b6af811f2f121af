"""What the recorded clients share: the arguments, the end, and one shape for both libraries.

Every client is started with: library (kafkatools, librdkafka), bootstrap, history file, name, run, own arguments.
"""

from __future__ import annotations

import faulthandler
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

from support.history.record import Recorder  # noqa: E402

RESTART = 75
"""The exit status of a client whose producer cannot go on: it is started again."""
PATIENCE_S = 1800
DELIVERY_S = 20
OURS = "kafkatools"

Place = tuple[str, int]
Read = tuple[str, int, int, str]
"""Topic, partition, offset and value."""
COMMON = {"reconnect.backoff.max.ms": "500"}


class Stop:
    """Whether this client was told to end. Not a threading.Event: its lock is held while it is set, and a second signal
    that comes then would wait for it without end, in the same thread."""

    def __init__(self) -> None:
        self._is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, number: int, frame: object) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it is set."""
        until = time.monotonic() + seconds
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))
        return self._is_set


class Arguments:
    """The command line of a client; `more` is its own."""

    def __init__(self) -> None:
        faulthandler.register(signal.SIGUSR1)
        self.library, self.bootstrap, path, self.name, run, *self.more = sys.argv[1:]
        self.run = int(run)
        self.recorder = Recorder(path, self.name, self.run)
        self.stopping = Stop()


def complain(arguments: Arguments, error: object) -> None:
    """Say on stderr what went wrong, for whoever reads the log of the client."""
    words = f"{time.monotonic():.3f} {arguments.name} {arguments.run}: {error!r}"
    cause = getattr(error, "__cause__", None)
    print(words if cause is None else f"{words} cause {cause!r}", file=sys.stderr, flush=True)


class OurProducer:
    """kafkatools' producer."""

    def __init__(self, bootstrap: str, settings: dict[str, str]) -> None:
        from kafkatools.core.config import PRODUCER, Config
        from kafkatools.core.errors import KafkaError
        from kafkatools.core.producer.producer import Producer

        own = {"bootstrap.servers": bootstrap, "max.block.ms": str(PATIENCE_S * 1000), "request.timeout.ms": "5000"}
        self._producer = Producer(Config(PRODUCER, {**COMMON, **own, **settings}))
        self.error = KafkaError

    def send(self, topic: str, partition: int, value: str, done: Callable[[int, object], None]) -> None:
        """Send; `done` is called with the offset, or with -1 and the error."""
        from kafkatools.core.producer.producer_record import ProducerRecord

        def answered(metadata: Any, error: object) -> None:
            done(metadata.offset if error is None else -1, error)

        self._producer.send(ProducerRecord(topic, value.encode(), partition=partition), answered)

    def init(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def flush(self) -> None:
        self._producer.flush()

    def may_abort(self, error: Any) -> bool:
        """Whether the transaction can be aborted after this error."""
        return not self._producer.has_fatal_error

    @property
    def is_fatal(self) -> bool:
        return self._producer.has_fatal_error

    def serve(self) -> None:
        """Nothing: the producer has a thread of its own."""

    def close(self) -> None:
        self._producer.close()


class LibrdkafkaProducer:
    """confluent-kafka's producer."""

    def __init__(self, bootstrap: str, settings: dict[str, str]) -> None:
        from confluent_kafka import KafkaException, Producer

        debug = {"debug": os.environ["KT_HISTORY_DEBUG"]} if "KT_HISTORY_DEBUG" in os.environ else {}
        own = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": "2000", "socket.timeout.ms": "5000"}
        # with rebootstrap librdkafka 2.16 may wait without end for a coordinator that it has dropped (its issue 5511)
        own["metadata.recovery.strategy"] = "none"
        self.is_fatal = False
        self._producer = Producer({**COMMON, **own, **settings, **debug, "error_cb": self._note})
        self.error = KafkaException

    def _note(self, error: Any) -> None:
        self.is_fatal = self.is_fatal or error.fatal()

    def send(self, topic: str, partition: int, value: str, done: Callable[[int, object], None]) -> None:
        def answered(error: object, message: Any) -> None:
            done(-1 if error is not None else message.offset(), error)

        while True:
            try:
                self._producer.produce(topic, value.encode(), partition=partition, on_delivery=answered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        """Abort when nothing is on its way any more, for the reason that `may_abort` gives."""
        self._producer.flush(PATIENCE_S)
        self._producer.abort_transaction(PATIENCE_S)

    def flush(self) -> None:
        self._producer.flush(PATIENCE_S)

    def may_abort(self, error: Any) -> bool:
        """Not with messages that wait to be sent again: librdkafka 2.16 purges them and reuses their sequences, even of
        those that were appended, so that the broker takes a record of the next transaction for a duplicate."""
        return bool(error.args[0].txn_requires_abort()) and self._producer.flush(5) == 0

    def serve(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(PATIENCE_S)


def make_producer(arguments: Arguments, settings: dict[str, str]) -> Any:
    """A producer of the library that was asked for."""
    kind = OurProducer if arguments.library == OURS else LibrdkafkaProducer
    return kind(arguments.bootstrap, settings)


class OurReader:
    """kafkatools' consumer of assigned partitions."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        from kafkatools.core.config import CONSUMER, Config
        from kafkatools.core.consumer.consumer import Consumer
        from kafkatools.core.errors import KafkaError

        settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "none"}
        settings |= {"request.timeout.ms": "5000", "max.poll.records": "1000", "enable.auto.commit": "false"}
        self._consumer = Consumer(Config(CONSUMER, {**COMMON, **settings}))
        self._error = KafkaError

    def start(self, places: Sequence[Place], offset: int) -> None:
        """Read on from this offset of each partition."""
        self._consumer.assign(places)
        for place in places:
            self._consumer.seek(place, offset)

    def poll(self) -> tuple[list[Read], object]:
        """Records, and an error or None."""
        try:
            found = self._consumer.poll(200)
        except self._error as error:
            return [], error
        return [(each.topic, each.partition, each.offset, each.value.decode()) for each in found], None

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaReader:
    """confluent-kafka's consumer of assigned partitions."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "error"}
        settings |= {"group.id": "unused", "enable.auto.commit": False, "socket.timeout.ms": "5000"}
        settings |= {"metadata.recovery.strategy": "none", "fetch.wait.max.ms": "200"}
        self._consumer = Consumer({**COMMON, **settings})

    def start(self, places: Sequence[Place], offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(topic, partition, offset) for topic, partition in places])

    def poll(self) -> tuple[list[Read], object]:
        found, problem = [], None
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is not None:
                problem = message.error()
            else:
                found.append((message.topic(), message.partition(), message.offset(), message.value().decode()))
        return found, problem

    def close(self) -> None:
        self._consumer.close()


def make_reader(arguments: Arguments, isolation: str) -> Any:
    """A reader of the library that was asked for."""
    kind = OurReader if arguments.library == OURS else LibrdkafkaReader
    return kind(arguments.bootstrap, isolation)


def read_on(arguments: Arguments, topic: str, partitions: int, isolation: str, source: Any) -> None:
    """Read a topic from its beginning until told to stop; now and then again, from an earlier offset. Each run over the
    offsets is a session: within it nothing may be skipped or come twice."""
    reader = make_reader(arguments, isolation)
    places = [(topic, partition) for partition in range(partitions)]
    reader.start(places, 0)
    session, farthest, next_seek = 0, 0, time.monotonic() + 8
    while not arguments.stopping.is_set():
        begun_ns = time.monotonic_ns()
        records, error = reader.poll()
        if error is not None:
            arguments.recorder.note("read_error", begun_ns, "fail", topic=topic, error=repr(error))
            arguments.stopping.wait(0.1)
        note_read(arguments, records, isolation, session, begun_ns)
        farthest = max([farthest, *(record[2] for record in records)])
        if time.monotonic() > next_seek:
            next_seek = time.monotonic() + source.uniform(4, 12)
            session += 1
            reader.start(places, max(0, farthest - source.choice((50, 400, 1500))))
    reader.close()


def note_read(arguments: Arguments, records: list[Read], isolation: str, session: int, begun_ns: int) -> None:
    """One line per partition."""
    by_place: dict[Place, list[tuple[int, str]]] = {}
    for topic, partition, offset, value in records:
        by_place.setdefault((topic, partition), []).append((offset, value))
    for (topic, partition), found in by_place.items():
        place: dict[str, Any] = {"topic": topic, "partition": partition, "isolation": isolation, "session": session}
        offsets, values = [offset for offset, _ in found], [value for _, value in found]
        arguments.recorder.note("read", begun_ns, **place, offsets=offsets, read=values)


def in_thread(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Start a thread that ends the process when it fails, so that no part of a client is silently missing."""

    def guarded() -> None:
        try:
            target(*arguments)
        except BaseException:  # noqa: BLE001 - the boundary of a thread
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    return thread
