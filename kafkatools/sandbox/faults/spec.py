"""The specification of a fault: its kind, the requests or writes that it concerns, how often and how long."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from kafkatools.core.errors import KafkaError, known_codes
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields

DELAY, DROP, CUT, ERROR = "delay", "drop", "cut", "error"
SLOW_DISK, FULL_DISK, CLOCK_SKEW = "slow-disk", "full-disk", "clock-skew"
KINDS = (DELAY, DROP, CUT, ERROR, SLOW_DISK, FULL_DISK, CLOCK_SKEW)
REQUEST_KINDS = (DELAY, DROP, CUT, ERROR)
DISK_KINDS = (SLOW_DISK, FULL_DISK)
CLIENTS, NODES, ALL = SENDERS = ("clients", "nodes", "all")

_READS = ("LIST_", "DESCRIBE_", "CONSUMER_GROUP_DESCRIBE", "SHARE_GROUP_DESCRIBE", "STREAMS_GROUP_DESCRIBE")
_OTHER_READS = frozenset(
    {ApiKey.FETCH, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FOR_LEADER_EPOCH}
)
READS = _OTHER_READS | {api for api in ApiKey if api.name.startswith(_READS)}
"""The APIs that change nothing: an error is put into their response after they were executed."""


Row = Fields
"""A specification as a JSON object, beside its `id`."""


class FaultSpec(NamedTuple):
    """A fault. `apis`, `client`, `topic`: the requests that it concerns, empty or None for all; client ids and topics
    are patterns with `*` and `?`. `senders`: CLIENTS, NODES (other nodes of the cluster) or ALL. `rate`: the share of
    those that it hits, chosen by a generator with `seed`. `until_ms`: its end, ms since 1970; None: when it is removed.
    `delay_ms` is of DELAY and SLOW_DISK, `error` of ERROR, `after` of CUT (after the request was executed), `skew_ms`
    of CLOCK_SKEW."""

    kind: str
    apis: tuple[str, ...] = ()
    client: str | None = None
    topic: str | None = None
    senders: str = CLIENTS
    rate: float = 1.0
    seed: int = 0
    until_ms: int | None = None
    delay_ms: int = 0
    error: str = ""
    after: bool = False
    skew_ms: int = 0

    @property
    def api_keys(self) -> frozenset[int]:
        """The keys of the APIs, empty for all."""
        return frozenset(API_KEYS[name] for name in self.apis)

    @property
    def error_code(self) -> int:
        """The code of the error."""
        return ERROR_CODES[self.error]

    def has_topic(self, name: str | None) -> bool:
        """Return whether the fault concerns a topic; None is a topic without a known name."""
        return self.topic is None or (name is not None and fnmatchcase(name, self.topic))

    def has_client(self, client_id: str | None) -> bool:
        """Return whether the fault concerns requests with this client id."""
        return self.client is None or fnmatchcase(client_id or "", self.client)


def spec_row(spec: FaultSpec) -> dict[str, object]:
    """A specification as a JSON object."""
    return {**spec._asdict(), "apis": list(spec.apis)}


def read_spec(row: Row) -> FaultSpec:
    """Parse a specification. Raises TypeError or KeyError."""
    fields: Fields = {name: row[name] for name in FaultSpec._fields}
    return FaultSpec(**{**fields, "apis": tuple(row["apis"])})


def _error_names() -> dict[str, int]:
    errors: dict[int, type[KafkaError]] = known_codes()
    return {error.name: code for code, error in errors.items()}


API_KEYS: dict[str, int] = {api.label: int(api) for api in ApiKey}
"""The APIs of Kafka by name."""
ERROR_CODES: dict[str, int] = _error_names()
"""Kafka's error codes by name."""
