"""An alert of kt monitor --alert, and the notices of its changes."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import NamedTuple

from kafkatools.core.control_characters import visible
from kafkatools.tools.monitor.conditions import Condition
from kafkatools.tools.monitor.measures import CLUSTER, Place, Reading


class Alert(NamedTuple):
    """A condition of --alert, and for how long it must hold before the alert fires."""

    condition: Condition
    hold_ms: int = 0


@unique
class State(StrEnum):
    """The state of an alert at a place. PENDING: the condition holds, but not for long enough yet. UNKNOWN: the figure
    is unknown, and the alert does not fire."""

    PENDING = "pending"
    FIRING = "firing"
    UNKNOWN = "unknown"


@unique
class Kind(StrEnum):
    """The kinds of notices. REPEATED: the alert still fires. UNKNOWN: the figure is unknown."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    UNKNOWN = "unknown"


class Notice(NamedTuple):
    """A change of an alert at a place. `reading` is the latest one, None if the place does not exist any more.

    `time_ms` and `since_ms` are ms since 1970; `since_ms`: since when the condition has held or the figure is unknown.
    """

    kind: Kind
    alert: Alert
    place: Place
    reading: Reading | None
    time_ms: int
    since_ms: int

    @property
    def text(self) -> str:
        """The notice as one sentence."""
        return notice_text(self.kind, self.alert.condition, self.place, self.reading)


def notice_text(kind: Kind, condition: Condition, place: Place, reading: Reading | None) -> str:
    """Return one sentence with the alert, the place and the value or the reason why it is unknown. Control characters
    are escaped: a name with a line end would forge a line of a log or of a chat."""
    return visible(_sentence(kind, condition, place, reading))


def _sentence(kind: Kind, condition: Condition, place: Place, reading: Reading | None) -> str:
    at = f" for {place.text}" if place.text else ""
    if reading is None:
        return f"{condition.text} is resolved{at}: " + (
            "all is known again" if place == CLUSTER else "it does not exist any more"
        )
    if kind is Kind.UNKNOWN:
        return f"{condition.text} is unknown{at}: {reading.reason}"
    value = condition.value_text(reading)
    if kind is Kind.RESOLVED:
        return f"{condition.text} is resolved{at}" + (f": {value}" if value else "")
    name = f"{reading.partition[0]}-{reading.partition[1]}" if reading.partition is not None else reading.detail
    where = f" ({name})" if name and name != value else ""
    return f"{condition.text} {'still holds' if kind is Kind.REPEATED else 'holds'}{at}: {value}{where}"
