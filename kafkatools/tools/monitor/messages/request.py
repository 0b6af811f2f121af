"""A request for records of one topic, and its form as JSON for the process that reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.tools.lines.slice import LOG_END, LOG_START, Anchor, Place, Slice

MOST_RECORDS = 500
"""The most records of a response."""
MOST_SEARCHED = 1_000_000
"""The most records that a search of the newest ones reads."""
MOST_SECONDS = 60
DEFAULT_SECONDS = 10
CELL_BYTES = 16 << 10
"""The most characters of a key, value or header that a response has of each record."""
WHOLE_CELL_BYTES = 2 << 20
"""The same for a request for one record as a whole."""
RESPONSE_BYTES = 8 << 20
"""The most characters of all records of a response."""
READ_BYTES = 256 << 20
"""The most bytes of keys and values that a request reads."""
PARTS = ("key", "value", "headers")


class Registry(NamedTuple):
    """The schema registry that decodes records: its settings, its address if an option named one, the directory of
    kt's files for the cache. `keys`, `values`: decode them."""

    settings: Mapping[str, str]
    url: str | None
    home: str
    keys: bool
    values: bool


class Source(NamedTuple):
    """The source of records: the settings of the consumer, the schema registry, and the masks of --mask with the key of
    their hashes."""

    settings: Mapping[str, str]
    registry: Registry | None = None
    masks: tuple[str, ...] = ()
    hash_key: bytes = b""


class MessageRequest(NamedTuple):
    """The records to show: of these partitions (none: all), within the slice, with this key and this text. `limit`:
    the most records to show. `seconds`: the time limit of the read."""

    topic: str
    partitions: tuple[int, ...] = ()
    slice: Slice = Slice(LOG_START, LOG_END, MOST_RECORDS)
    limit: int = MOST_RECORDS
    key: str | None = None
    grep: str | None = None
    grep_in: tuple[str, ...] = PARTS
    ignores_case: bool = False
    seconds: int = DEFAULT_SECONDS
    is_whole: bool = False

    @property
    def is_search(self) -> bool:
        """Return whether records are selected by their contents."""
        return self.key is not None or self.grep is not None

    @property
    def cell_bytes(self) -> int:
        """The most characters of a key, value or header."""
        return WHOLE_CELL_BYTES if self.is_whole else CELL_BYTES


def to_json(source: Source, request: MessageRequest) -> bytes:
    """Return the source and the request as JSON."""
    registry = None if source.registry is None else source.registry._asdict()
    parts = request.slice
    return json.dumps(
        {
            "source": {**source._asdict(), "registry": registry, "hash_key": source.hash_key.hex()},
            "request": {
                **request._asdict(),
                "slice": {"start": _place_json(parts.start), "end": _place_json(parts.end), "last": parts.last},
            },
        }
    ).encode()


def from_json(data: bytes) -> tuple[Source, MessageRequest]:
    """Return the source and the request from the JSON that `to_json` returned."""
    found = json.loads(data)
    source, request = found["source"], found["request"]
    registry = None if source["registry"] is None else Registry(**source["registry"])
    parts = request["slice"]
    start = _place(parts["start"])
    assert start is not None
    return (
        Source(source["settings"], registry, tuple(source["masks"]), bytes.fromhex(source["hash_key"])),
        MessageRequest(
            **{
                **request,
                "partitions": tuple(request["partitions"]),
                "grep_in": tuple(request["grep_in"]),
                "slice": Slice(start, _place(parts["end"]), parts["last"]),
            }
        ),
    )


def _place_json(place: Place | None) -> list[object] | None:
    return None if place is None else [place.anchor.value, place.value]


def _place(found: tuple[str, int] | None) -> Place | None:
    return None if found is None else Place(Anchor(found[0]), found[1])
