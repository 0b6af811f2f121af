"""/messages.json of kt monitor --web: the fields of a request, and the records that it selects.

Places, ranges, keys and expressions are those of kt console-consumer, parsed by the same code. A process of its own
reads the records (`tools/monitor/messages/reader_process.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from kafkatools.commands.monitor.access import Role
from kafkatools.commands.monitor.http_requests import Content
from kafkatools.commands.monitor.routes import LongContent, Route, Visit
from kafkatools.core.clock import Clock
from kafkatools.options.slices import RANGE_FORM, TIME_FORM, parse_range, parse_time
from kafkatools.output import json_line
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Anchor, Place, Slice
from kafkatools.tools.monitor.messages.request import (
    DEFAULT_SECONDS,
    MOST_RECORDS,
    MOST_SEARCHED,
    MOST_SECONDS,
    PARTS,
    MessageRequest,
    Source,
)

JSON = "application/json"
_DEFAULT_LIMIT = 50
_FIELDS = (
    "topic", "partitions", "last", "since", "until", "offset", "limit", "key", "grep", "grep_in", "ignore_case",
    "seconds", "whole",
)  # fmt: skip
_PARTITIONS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_MOST_PARTITIONS = 10_000


class BadField(Exception):
    """A field of a request with an invalid value, with the reason as a sentence."""


def messages_route(source: Source, takes_topic: Callable[[str], bool], clock: Clock) -> Route:
    """Return the route of /messages.json, for the topics that the monitor shows."""

    def content(visit: Visit) -> Content | LongContent:
        try:
            request = parse_query(visit.query, clock.wall_ms())
        except BadField as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        if not takes_topic(request.topic):
            return _error(HTTPStatus.FORBIDDEN, f"kt monitor was started without topic {request.topic} (--topic)")
        return lambda: _read(source, request)

    return Route(content, Role.READ)


async def _read(source: Source, request: MessageRequest) -> Content:
    from kafkatools.tools.monitor.messages.launching import read_in_process

    outcome = await read_in_process(source, request)
    return Content(JSON, json_line(outcome.body).encode(), HTTPStatus(outcome.status))


def _error(status: HTTPStatus, message: str) -> Content:
    return Content(JSON, json_line({"error": message}).encode(), status)


def parse_query(query: Mapping[str, str], now_ms: int) -> MessageRequest:
    """Return the request of the fields of an address; times are relative to `now_ms`. Raises BadField."""
    for name in query:
        if name not in _FIELDS:
            raise BadField(f"Unknown field '{name}': the fields are {', '.join(_FIELDS)}")
    if not query.get("topic"):
        raise BadField("Choose a topic")
    key, grep = query.get("key"), query.get("grep")
    is_whole = query.get("whole") == "1"
    limit = 1 if is_whole else _number(query, "limit", _DEFAULT_LIMIT, MOST_RECORDS)
    return MessageRequest(
        topic=query["topic"],
        partitions=_partitions(query.get("partitions", "")),
        slice=_slice(query, now_ms, limit, is_search=key is not None or grep is not None),
        limit=limit,
        key=key,
        grep=grep,
        grep_in=_parts(query.get("grep_in")),
        ignores_case=query.get("ignore_case") == "1",
        seconds=_number(query, "seconds", DEFAULT_SECONDS, MOST_SECONDS),
        is_whole=is_whole,
    )


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadField(f"Invalid {name} '{text}': write a number from 1 to {most}")
    return int(text)


def _partitions(text: str) -> tuple[int, ...]:
    if text.strip().lower() in ("", "all"):
        return ()
    found: dict[int, None] = {}
    for word in text.split(","):
        match = _PARTITIONS.fullmatch(word.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if first > last or last - first + len(found) >= _MOST_PARTITIONS:
            raise BadField(f"Invalid partitions '{text}': write numbers and ranges such as 0,3-5, or all")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def _parts(text: str | None) -> tuple[str, ...]:
    if text is None:
        return PARTS
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    for name in names:
        if name not in PARTS:
            raise BadField(f"Invalid grep_in '{name}': it is none of {', '.join(PARTS)}")
    return names


def _slice(query: Mapping[str, str], now_ms: int, limit: int, *, is_search: bool) -> Slice:
    """Return the slice of `offset`, of `since` and `until`, or of `last`; without these the newest records, and for a
    search all records."""
    has_times = "since" in query or "until" in query
    if ("offset" in query) + has_times + ("last" in query) > 1:
        raise BadField("Choose one of: newest records (last), a time (since, until), offsets (offset)")
    if "offset" in query:
        try:
            found = parse_range(query["offset"].strip(), now_ms)
        except ValueError as error:
            raise BadField(f"Invalid offset: {error}. {RANGE_FORM}") from None
        return found if found.end is not None else found._replace(end=LOG_END)
    if has_times:
        since, until = _time(query, "since", now_ms), _time(query, "until", now_ms)
        if since is not None and until is not None and since.value >= until.value:
            raise BadField(f"until '{query['until']}' is not after since '{query['since']}'")
        return Slice(since or LOG_START, until or LOG_END)
    if is_search:
        last = _number(query, "last", 0, MOST_SEARCHED)
        return Slice(LOG_START, LOG_END, last or None)
    return Slice(LOG_START, LOG_END, min(limit, _number(query, "last", limit, MOST_SEARCHED)))


def _time(query: Mapping[str, str], name: str, now_ms: int) -> Place | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return Place(Anchor.TIME, parse_time(text, now_ms))
    except ValueError as error:
        raise BadField(f"Invalid {name}: {error}. {TIME_FORM}") from None
