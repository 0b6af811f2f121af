"""An alert of kt monitor --alert, and the notices that it sends when its state changes."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import NamedTuple

from kafkatools.tools.monitor.conditions import Condition
from kafkatools.tools.monitor.measures import Place, Reading


class Alert(NamedTuple):
    """A condition of --alert, and for how long it must hold before the alert fires."""

    condition: Condition
    hold_ms: int = 0


@unique
class State(StrEnum):
    """The state of an alert at a place. PENDING: the condition holds, but not for long enough. UNKNOWN: the figure
    cannot be determined, and the alert does not fire."""

    PENDING = "pending"
    FIRING = "firing"
    UNKNOWN = "unknown"


@unique
class Kind(StrEnum):
    """The kinds of notices. REPEATED: the alert still fires. UNKNOWN: the figure cannot be determined."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    UNKNOWN = "unknown"


class Notice(NamedTuple):
    """A change of an alert that people are told. `time_ms` and `since_ms` are ms since 1970; `since_ms`: since when the
    condition has held, or since when the figure is unknown. `reading` is the last one, None if the place is gone."""

    kind: Kind
    alert: Alert
    place: Place
    reading: Reading | None
    time_ms: int
    since_ms: int

    @property
    def text(self) -> str:
        """The notice as one sentence."""
        condition = self.alert.condition
        place = f" for {self.place.text}" if self.place.text else ""
        if self.kind is Kind.UNKNOWN:
            assert self.reading is not None
            return f"{condition.text} is unknown{place}: {self.reading.reason}"
        if self.kind is Kind.RESOLVED:
            value = f": {condition.value_text(self.reading)}" if self.reading is not None and self.reading.text else ""
            return f"{condition.text} is resolved{place}" + (value or ": it is not there any more")
        assert self.reading is not None
        verb = "still holds" if self.kind is Kind.REPEATED else "holds"
        return f"{condition.text} {verb}{place}: {condition.value_text(self.reading)}{_where(self.reading)}"


def _where(reading: Reading) -> str:
    """Return the partition with the largest value, or the names of what was counted, in brackets."""
    name = f"{reading.partition[0]}-{reading.partition[1]}" if reading.partition is not None else reading.detail
    return f" ({name})" if name else ""
