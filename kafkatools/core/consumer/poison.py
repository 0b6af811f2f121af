"""Deserialization of keys and values, and the policy for records that cannot be deserialized.

Rules: a null never reaches a deserializer. A deserializer is a function of the bytes, or an object with
`deserialize(topic, data, headers)`; any Exception it raises makes the record a poison record. Policy `fail` returns the
records before it, then every poll raises RecordDeserializationError until a seek past it (KIP-334). Policy `skip` drops
the record and logs a warning; `raw` returns it with the failed key or value as bytes.
"""

from __future__ import annotations

import enum
import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafkatools.core.client_log import ClientLog, log_prefix
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, records_of
from kafkatools.core.consumer.deserializers import object_deserializer
from kafkatools.core.consumer.subscription import SubscriptionState, TopicPartition
from kafkatools.core.errors import ConfigError, SerializationError

_log = logging.getLogger(__name__)

Headers = tuple[tuple[str, bytes | None], ...]


class DeserializerObject(Protocol):
    """A deserializer that also receives the record's topic and headers."""

    def deserialize(self, topic: str, data: bytes, headers: Headers) -> object:
        """Return the object that `data` encodes."""


AnyDeserializer = Callable[[bytes], object] | DeserializerObject
_Uniform = Callable[[str, bytes, Headers], object]


@enum.unique
class PoisonPolicy(enum.Enum):
    """The policies for records that cannot be deserialized: fail, skip, or return raw bytes."""

    FAIL = "fail"
    SKIP = "skip"
    RAW = "raw"


class RecordDeserializationError(SerializationError):
    """A deserializer rejected a key or value (RecordDeserializationException). The position of a Consumer stays at the
    record; `remedy` replaces the advice to seek past it."""

    def __init__(self, record: ConsumerRecord, is_key: bool, cause: BaseException, remedy: str | None = None) -> None:
        self.topic, self.partition, self.offset, self.is_key = record.topic, record.partition, record.offset, is_key
        self.record = record
        self.cause = cause
        seek = f"If needed, please seek past the record to continue consumption (seek to {record.offset + 1})."
        field, partition = "KEY" if is_key else "VALUE", f"{record.topic}-{record.partition}"
        super().__init__(
            f"Error deserializing {field} for partition {partition} at offset {record.offset}: {cause}. "
            + (remedy or seek)
        )


class Decoded(NamedTuple):
    """Deserialized records, and for each failed partition the error of its first poison record."""

    records: list[ConsumerRecord]
    failures: dict[TopicPartition, RecordDeserializationError]


class RecordDecoder:
    """Applies a consumer's deserializers and poison policy to fetched records."""

    def __init__(
        self,
        key: AnyDeserializer | None,
        value: AnyDeserializer | None,
        policy: PoisonPolicy = PoisonPolicy.FAIL,
        prefix: str = "",
    ) -> None:
        self.log = ClientLog(_log, prefix)
        self._key = _uniform(key)
        self._value = _uniform(value)
        self._policy = policy

    @classmethod
    def of(
        cls,
        config: Config,
        key: str | AnyDeserializer | None = None,
        value: str | AnyDeserializer | None = None,
        policy: PoisonPolicy | str = PoisonPolicy.FAIL,
    ) -> RecordDecoder:
        """Return a consumer's decoder. `key` and `value` override key.deserializer and value.deserializer. Raises
        ConfigError for an unknown class name or policy, or an object that is no deserializer."""
        try:
            poison_policy = PoisonPolicy(policy)
        except ValueError:
            names = ", ".join(choice.value for choice in PoisonPolicy)
            raise ConfigError(f"Unknown policy for poison records: {policy}. Known ones: {names}") from None
        return cls(
            _deserializer_of(config.key_deserializer if key is None else key),
            _deserializer_of(config.value_deserializer if value is None else value),
            poison_policy,
            log_prefix(config),
        )

    def __bool__(self) -> bool:
        return self._key is not None or self._value is not None

    @property
    def fails(self) -> bool:
        """Return whether the policy is `fail`."""
        return self._policy is PoisonPolicy.FAIL

    def decode(self, columns: Sequence[FetchedColumns]) -> Decoded:
        """Deserialize the keys and values of fetched records according to the poison policy. Under `fail`, a
        partition's records end before its first poison record, whose error is in `failures`."""
        decoded = Decoded([], {})
        for item in columns:
            if item.topic_partition not in decoded.failures:
                self._decode_columns(item, decoded)
        return decoded

    def _decode_columns(self, item: FetchedColumns, decoded: Decoded) -> None:
        for record in records_of(item):
            try:
                decoded.records.append(self.decode_record(record))
            except RecordDeserializationError as error:
                if self._policy is PoisonPolicy.FAIL:
                    decoded.failures[item.topic_partition] = error
                    return
                self.log.warning("Skipped: %s", error)

    def decode_record(self, record: ConsumerRecord) -> ConsumerRecord:
        """Deserialize one record. Raises RecordDeserializationError unless the policy is `raw`, which leaves the failed
        key or value as bytes."""
        key = self._apply(self._key, record, record.key, is_key=True)
        return record._replace(key=key, value=self._apply(self._value, record, record.value, is_key=False))

    def _apply(self, deserialize: _Uniform | None, record: ConsumerRecord, data: bytes | None, is_key: bool) -> object:
        if data is None or deserialize is None:
            return data
        try:
            return deserialize(record.topic, data, record.headers)
        except Exception as error:
            if self._policy is PoisonPolicy.RAW:
                return data
            raise RecordDeserializationError(record, is_key, error) from error


class RefusedRecords:
    """The poison records at which partitions stand under policy `fail`. Each poll deserializes them again before it
    returns records, since other partitions with many records would hide the error otherwise."""

    def __init__(self, decoder: RecordDecoder, subscriptions: SubscriptionState) -> None:
        self._decoder = decoder
        self._subscriptions = subscriptions
        self._failures: dict[TopicPartition, RecordDeserializationError] = {}

    def add(self, failures: Mapping[TopicPartition, RecordDeserializationError]) -> None:
        """Add records at which the positions of their partitions are now."""
        self._failures.update(failures)

    def retry(self) -> None:
        """Forget the records that can be deserialized now, and those to which a partition no longer points. Raises
        RecordDeserializationError for any other, unless its partition is paused or must not be fetched."""
        for part, failure in list(self._failures.items()):
            state = self._subscriptions.state_or_none(part)
            is_current = state is not None and state.position is not None and state.position.offset == failure.offset
            if state is not None and is_current and not state.is_fetchable:
                continue
            if is_current:
                self._decoder.decode_record(failure.record)
            del self._failures[part]


def up_to_failures(
    columns: Sequence[FetchedColumns], failures: Mapping[TopicPartition, RecordDeserializationError]
) -> list[FetchedColumns]:
    """Return the fetched columns, cut off before the first failed record of each partition."""
    readable = []
    for item in columns:
        failure = failures.get(item.topic_partition)
        stop = item.columns.count if failure is None else bisect_left(item.columns.offsets, failure.offset)
        if stop:
            readable.append(item if stop == item.columns.count else item._replace(columns=item.columns.slice(0, stop)))
    return readable


def _deserializer_of(deserializer: str | AnyDeserializer | None) -> AnyDeserializer | None:
    return object_deserializer(deserializer) if isinstance(deserializer, str) and deserializer else deserializer or None


def _uniform(deserializer: AnyDeserializer | None) -> _Uniform | None:
    if deserializer is None:
        return None
    method = getattr(deserializer, "deserialize", None)
    if method is not None:
        return lambda topic, data, headers: method(topic, data, headers)
    if not callable(deserializer):
        raise ConfigError(
            f"{deserializer!r} is not a deserializer: expected a function of the bytes or an object with deserialize"
        )
    function = deserializer
    return lambda topic, data, headers: function(data)
