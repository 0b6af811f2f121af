"""Groups as of the high watermark of their partition of `__consumer_offsets`.

Apache Kafka keeps groups in timeline collections; ListGroups, the describing requests and OffsetFetch without stable
offsets read them at the last committed offset. Here a change that is not replicated yet leaves a copy of the group as
it was before. Usually there is none. Rules:
- Of a classic group only the creation and the deletion count, as in Apache Kafka: its state is always the newest one.
- At most `MAX_STATES` copies of a group are kept, the newest ones: with more changes above the high watermark than
  that, the group is shown as it was before the oldest of these.
- A loaded group counts as replicated.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.replaced_offsets import Progress

MAX_STATES = 16
State = tuple[int, AnyGroup | None]
"""The end offset of a batch, and the group before it; None for no group."""


class ReplicatedGroups:
    """The groups of a coordinator as of the high watermark. `groups` are the newest ones. Without `progress` every
    change counts as replicated."""

    def __init__(self, groups: Mapping[str, AnyGroup], progress: Callable[[str], Progress] | None) -> None:
        self._groups, self._progress = groups, progress
        self._states: dict[str, deque[State]] = {}

    def note_append(self, group_id: str) -> None:
        """Keep the group as it is now. To be called after the append of its change, before the change is applied."""
        if self._progress is None:
            return
        end, high_watermark = self._progress(group_id)
        if high_watermark >= end:
            self._states.pop(group_id, None)
            return
        states = self._states.setdefault(group_id, deque(maxlen=MAX_STATES))
        states.append((end, _copy(self._groups.get(group_id))))

    def of(self, group_id: str) -> AnyGroup | None:
        """Return a group as of the high watermark; None if it did not exist."""
        states = self._states.get(group_id)
        if states is not None and self._progress is not None:
            high_watermark = self._progress(group_id).high_watermark
            while states and states[0][0] <= high_watermark:
                states.popleft()
            if states:
                return states[0][1]
            del self._states[group_id]
        return self._groups.get(group_id)

    def all(self) -> Iterator[AnyGroup]:
        """Yield every group as of the high watermark."""
        for group_id in {**self._groups, **dict.fromkeys(self._states)}:
            group = self.of(group_id)
            if group is not None:
                yield group

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Drop the copies of the groups for which `is_released` is true. Another broker coordinates them."""
        for group_id in [group_id for group_id in self._states if is_released(group_id)]:
            del self._states[group_id]


def _copy(group: AnyGroup | None) -> AnyGroup | None:
    if group is None:
        return None
    copied = copy.copy(group)
    copied.members = dict(group.members)  # type: ignore[assignment]
    if not isinstance(copied, Group):
        copied.target = dict(copied.target)  # type: ignore[assignment]
    if isinstance(copied, ConsumerGroup):
        copied.regexes = dict(copied.regexes)
    return copied
