"""The thread that reads the data of the open place only: the members of a group, the log start offsets of a topic.

It has a client of its own, so a broker that does not respond delays neither the snapshots nor the keys. `_lock` guards
request and end. A newer request replaces one that was not begun yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.commands.monitor.terminal import places
from kafkatools.commands.monitor.terminal.model import Details
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import SHARE, describe_groups, describe_share_groups
from kafkatools.core.admin.offsets import EARLIEST, list_offsets
from kafkatools.core.errors import KafkaError

_TIMEOUT_MS = 5000


class Request(NamedTuple):
    """The data to read: of a topic (`partitions`) or a group (`group_type`)."""

    view: str
    name: str
    group_type: str = ""
    partitions: tuple[int, ...] = ()


class DetailsRead(NamedTuple):
    """The result of a request."""

    request: Request
    details: Details


def needs_details(place: Place) -> bool:
    """Return whether a place shows data that is not in a snapshot."""
    return place.view in (places.TOPIC, places.GROUP, places.MEMBER)


def read_details(admin: AdminClient, request: Request) -> Details:
    """Return the members of a group or the log start offsets of a topic, or the reason if they are
    unknown."""
    try:
        if request.view == places.TOPIC:
            keys = dict.fromkeys(((request.name, number) for number in request.partitions), EARLIEST)
            found = list_offsets(admin, keys, timeout_ms=_TIMEOUT_MS, leaderless_ms=0)
            return Details(starts={key: at.offset for key, at in found.items() if at.error is None and at.offset >= 0})
        describe = describe_share_groups if request.group_type == SHARE else describe_groups
        group = describe(admin, [request.name], _TIMEOUT_MS)[request.name]
        return Details(group, error=None if group.error is None else f"members are unknown: {group.error}")
    except KafkaError as error:
        return Details(error=f"not reported: {error}")


class DetailsThread(threading.Thread):
    """Answers one request after the other; `report` gets each result, on this thread."""

    def __init__(self, connect: Callable[[], AdminClient], report: Callable[[DetailsRead], object]) -> None:
        super().__init__(name="monitor-details", daemon=True)
        self._connect = connect
        self._report = report
        self._lock = threading.Condition()
        self._request: Request | None = None
        self._is_stopped = False

    def request(self, request: Request) -> None:
        """Read this next."""
        with self._lock:
            self._request = request
            self._lock.notify()

    def stop(self) -> None:
        """End after the present request. Returns at once."""
        with self._lock:
            self._is_stopped = True
            self._lock.notify()

    def run(self) -> None:
        """Answer requests until `stop`."""
        with self._connect() as admin:
            while (request := self._next()) is not None:
                self._report(DetailsRead(request, read_details(admin, request)))

    def _next(self) -> Request | None:
        with self._lock:
            while self._request is None and not self._is_stopped:
                self._lock.wait()
            request, self._request = self._request, None
            return None if self._is_stopped else request
