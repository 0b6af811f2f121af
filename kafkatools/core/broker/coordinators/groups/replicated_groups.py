"""Groups as of the high watermark of their partition of `__consumer_offsets`.

Apache Kafka keeps groups in timeline collections; ListGroups, the describing requests and OffsetFetch without stable
offsets read them at the last committed offset. Here a change that is not replicated yet leaves a copy of the group as
it was before. Usually there is none. Rules:
- Of a classic group only the creation and the deletion count, as in Apache Kafka: its state is always the newest one.
- At most `MAX_STATES` copies of a group are kept, the newest ones: with more changes above the high watermark than
  that, the group is shown as it was before the oldest of these.
- A loaded group counts as replicated.
- Each change of a group drops copies of others that are replicated by then, so copies do not pile up where nobody lists
  groups.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.replaced_offsets import Progress

MAX_STATES = 16
_SWEPT = 2
"""Groups whose copies a change of a group examines: more than the one that it adds."""
State = tuple[int, AnyGroup | None]
"""The end offset of a batch, and the group before it; None for no group."""


class ReplicatedGroups:
    """The groups of a coordinator as of the high watermark. `groups` are the newest ones. Without `progress` every
    change counts as replicated."""

    def __init__(self, groups: Mapping[str, AnyGroup], progress: Callable[[str], Progress] | None) -> None:
        self._groups, self._progress = groups, progress
        self._states: OrderedDict[str, deque[State]] = OrderedDict()

    @property
    def copies(self) -> int:
        """The number of copies that are kept."""
        return sum(map(len, self._states.values()))

    def note_append(self, group_id: str) -> None:
        """Keep the group as it is now. To be called after the append of its change, before the change is applied."""
        if self._progress is None:
            return
        for _ in range(min(_SWEPT, len(self._states))):
            swept, states = self._states.popitem(last=False)
            if _drop_replicated(states, self._progress(swept).high_watermark):
                self._states[swept] = states
        end, high_watermark = self._progress(group_id)
        if high_watermark >= end:
            self._states.pop(group_id, None)
            return
        states = self._states.setdefault(group_id, deque(maxlen=MAX_STATES))
        _drop_replicated(states, high_watermark)
        states.append((end, _copy(self._groups.get(group_id))))

    def of(self, group_id: str) -> AnyGroup | None:
        """Return a group as of the high watermark; None if it did not exist."""
        states = self._states.get(group_id)
        if states is not None and self._progress is not None:
            if _drop_replicated(states, self._progress(group_id).high_watermark):
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


def _drop_replicated(states: deque[State], high_watermark: int) -> bool:
    """Drop the copies that were replaced below the high watermark; return whether some are left."""
    while states and states[0][0] <= high_watermark:
        states.popleft()
    return bool(states)


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
