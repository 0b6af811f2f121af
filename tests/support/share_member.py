"""Share consumers driven line by line, as by ShareMember.java: each line of a story is a call, and has one line of
result. Runs a story with Apache Kafka's client or with ours."""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable

from support import apache_kafka
from support.waiting import PATIENCE_S

from kafkatools import AcknowledgeType, ConsumerRecord, ConsumerRecords, ShareConsumer
from kafkatools.core.errors import KafkaError

_SOURCE = pathlib.Path(__file__).with_name("ShareMember.java")


def by_kafkas_client(story: list[str]) -> list[str]:
    """The results of the calls with Apache Kafka's KafkaShareConsumer; names of exceptions without their ending."""
    command = [apache_kafka.java_executable(), "-XX:TieredStopAtLevel=1", "-cp", apache_kafka.jars(), str(_SOURCE)]
    done = subprocess.run(
        command, input="\n".join(story) + "\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.replace("Exception", "") for line in done.stdout.splitlines()]


def by_our_client(story: list[str]) -> list[str]:
    """The results of the calls with `kafkatools.ShareConsumer`."""
    members = _Members()
    try:
        return [members.result(line.split()) for line in story]
    finally:
        for consumer in members.consumers.values():
            consumer.close(1000)


class _Members:
    def __init__(self) -> None:
        self.consumers: dict[str, ShareConsumer] = {}
        self._delivered: dict[tuple[str, str], ConsumerRecord] = {}
        self._calls: dict[str, Callable[[ShareConsumer, list[str]], str]] = {
            "subscribe": self._subscribe,
            "unsubscribe": lambda consumer, words: consumer.unsubscribe() or "unsubscribed",  # type: ignore[func-returns-value]
            "poll": self._poll,
            "ack": self._acknowledge,
            "commit-sync": self._commit,
            "close": lambda consumer, words: consumer.close() or "closed",  # type: ignore[func-returns-value]
        }

    def result(self, words: list[str]) -> str:
        try:
            if words[0] == "open":
                settings = dict(word.split("=", 1) for word in words[2:])
                self.consumers[words[1]] = ShareConsumer(settings, value_deserializer=bytes.decode)
                return "opened"
            return self._calls[words[0]](self.consumers[words[1]], words)
        except KafkaError as error:
            return f"error {type(error).__name__}: {error}"

    def _subscribe(self, consumer: ShareConsumer, words: list[str]) -> str:
        consumer.subscribe(words[2:])
        return "subscribed"

    def _poll(self, consumer: ShareConsumer, words: list[str]) -> str:
        end = time.monotonic() + int(words[2]) / 1000
        records: ConsumerRecords | None = None
        while not records and (records is None or time.monotonic() < end):
            records = consumer.poll(max(0, int((end - time.monotonic()) * 1000)))
        texts = []
        for record in records or ():
            place = f"{record.topic}-{record.partition}:{record.offset}"
            self._delivered[words[1], place] = record
            texts.append(f"{place}x{record.delivery_count}")
        return f"records [{', '.join(texts)}]"

    def _acknowledge(self, consumer: ShareConsumer, words: list[str]) -> str:
        _, name, topic, partition, offset, kind = words
        consumer.acknowledge(self._delivered[name, f"{topic}-{partition}:{offset}"], AcknowledgeType[kind])
        return "acknowledged"

    def _commit(self, consumer: ShareConsumer, words: list[str]) -> str:
        results = sorted((str(part), error) for part, error in consumer.commit_sync().items())
        shown = (f"{part}={'ok' if error is None else type(error).__name__}" for part, error in results)
        return f"committed {{{', '.join(shown)}}}"
