"""The states of alerts over the snapshots of a run. Pure: views and times in, notices out.

An alert has a state at each place, such as a group. Rules:

- The condition must hold in each snapshot for `hold_ms` before the alert fires. A snapshot in which it is unknown
  neither ends that time nor makes the alert fire.
- A figure that is unknown for `hold_ms` is reported once, until the alert fires or its condition does not hold. It does
  not resolve an alert that fires.
- A place that is missing in a snapshot resolves the alert, unless a reading without a value covers it: the place may
  exist on a broker that does not respond. A group that is missing though every coordinator listed its groups is gone.
- Figures that need another snapshot are neither known nor unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.tools.monitor.alerts.alert import Alert, Kind, Notice, State, notice_text
from kafkatools.tools.monitor.conditions import Verdict
from kafkatools.tools.monitor.measures import CLUSTER, Place, Reading
from kafkatools.tools.monitor.view import AlertView, ClusterView


class Moment(NamedTuple):
    """The time of a snapshot: monotonic and since 1970, in ms."""

    now_ms: int
    wall_ms: int


@dataclass(slots=True)
class _Track:
    """An alert at a place. `held`, `unknown`: since when its condition holds, or is unknown. `reported`: when it was
    last reported as firing, None while it does not fire."""

    reading: Reading
    held: Moment | None = None
    unknown: Moment | None = None
    reported: Moment | None = None
    is_unknown_reported: bool = False


class AlertStates:
    """The alerts of a run. `repeat_ms`: how often a firing alert is reported again, None for never."""

    def __init__(self, alerts: Sequence[Alert], repeat_ms: int | None = None) -> None:
        self._repeat_ms = repeat_ms
        self._tracks: list[tuple[Alert, dict[Place, _Track]]] = [(alert, {}) for alert in alerts]

    def advance(self, view: ClusterView, moment: Moment) -> list[Notice]:
        """Return the notices of a snapshot."""
        return [
            notice
            for alert, tracks in self._tracks
            for notice in self._advance(
                alert, tracks, list(alert.condition.verdicts(view)), moment, _gone_groups(tracks, view)
            )
        ]

    def fail(self, error: str, moment: Moment) -> list[Notice]:
        """Return the notices of a snapshot that failed: all figures are unknown."""
        unknown = [Verdict(Reading(CLUSTER, None, None, error), None)]
        return [notice for alert, tracks in self._tracks for notice in self._advance(alert, tracks, unknown, moment)]

    def views(self) -> Iterator[AlertView]:
        """Yield the pending, firing and unknown alerts with their places."""
        for alert, tracks in self._tracks:
            for place, track in tracks.items():
                state = _state(track)
                if state is not None:
                    yield _view(alert, place, track, *state)

    def _advance(
        self,
        alert: Alert,
        tracks: dict[Place, _Track],
        verdicts: Sequence[Verdict],
        moment: Moment,
        gone: Collection[Place] = (),
    ) -> Iterator[Notice]:
        for reading, holds in verdicts:
            track = tracks.setdefault(reading.place, _Track(reading))
            track.reading = reading
            if holds is None:
                kind = _is_unknown(alert, track, moment)
            elif holds:
                kind = self._holds(alert, track, moment)
            else:
                kind = Kind.RESOLVED if track.reported is not None or track.is_unknown_reported else None
            if kind is not None:
                yield _notice(kind, alert, track, moment)
            if holds is False:
                del tracks[reading.place]
        places = {reading.place for reading, _ in verdicts}
        unseen = [reading.place for reading, holds in verdicts if holds is None]
        for place in [place for place in tracks if place not in places]:
            if place in gone or not any(other.covers(place) for other in unseen):
                track = tracks.pop(place)
                if track.reported is not None or track.is_unknown_reported:
                    yield _notice(Kind.RESOLVED, alert, track, moment)._replace(reading=None)

    def _holds(self, alert: Alert, track: _Track, moment: Moment) -> Kind | None:
        """Note that the condition holds, and return the notice that is due."""
        track.unknown = None
        track.held = track.held or moment
        if track.reported is None:
            if moment.now_ms - track.held.now_ms < alert.hold_ms:
                return None
            kind = Kind.FIRING
        elif track.is_unknown_reported or (
            self._repeat_ms is not None and moment.now_ms - track.reported.now_ms >= self._repeat_ms
        ):
            kind = Kind.REPEATED
        else:
            return None
        track.reported, track.is_unknown_reported = moment, False
        return kind


def _gone_groups(places: Iterable[Place], view: ClusterView) -> list[Place]:
    """Return the places of groups that do not exist any more; none while a coordinator did not list its groups."""
    if view.unlisted:
        return []
    groups = {group.group_id for group in view.groups}
    return [place for place in places if place.group is not None and place.group not in groups]


def _is_unknown(alert: Alert, track: _Track, moment: Moment) -> Kind | None:
    """Note that the condition is unknown, and return the notice that is due."""
    if track.reading.is_early:
        return None
    track.unknown = track.unknown or moment
    if track.is_unknown_reported or moment.now_ms - track.unknown.now_ms < alert.hold_ms:
        return None
    track.is_unknown_reported = True
    return Kind.UNKNOWN


def _notice(kind: Kind, alert: Alert, track: _Track, moment: Moment) -> Notice:
    since = (track.unknown if kind is Kind.UNKNOWN else track.held) or track.unknown or moment
    return Notice(kind, alert, track.reading.place, track.reading, moment.wall_ms, since.wall_ms)


def _state(track: _Track) -> tuple[State, Moment] | None:
    """Return the state of an alert and since when; None if it is inactive."""
    if track.reported is not None:
        return State.FIRING, track.held or track.reported
    if track.unknown is not None:
        return State.UNKNOWN, track.unknown
    return None if track.held is None else (State.PENDING, track.held)


def _view(alert: Alert, place: Place, track: _Track, state: State, since: Moment) -> AlertView:
    reading = track.reading
    is_unknown = track.unknown is not None
    topic, partition = reading.partition or (None, None)
    return AlertView(
        alert.condition.text,
        state.value,
        since.wall_ms,
        notice_text(Kind.UNKNOWN if is_unknown else Kind.FIRING, alert.condition, place, reading),
        place.group,
        topic,
        partition,
        place.broker,
        place.directory,
        reading.value,
        reading.lower_bound if reading.value is None else None,
        reading.reason if is_unknown else None,
    )
