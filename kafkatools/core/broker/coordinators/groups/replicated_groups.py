"""Groups as of the high watermark of their partition of `__consumer_offsets`.

ListGroups, the describing requests and OffsetFetch without stable offsets read them. A change that is not
replicated yet leaves a copy of the group as it was before (`ReplacedValues`). Rules:
- Of a classic group only the creation and the deletion count, as in Apache Kafka: its state is always the newest one.
- At most `MAX_STATES` copies of a group are kept, the newest ones: with more changes above the high watermark than
  that, the group is shown as it was before the oldest of these.
- A loaded group counts as replicated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.replaced_values import Progress, ReplacedValues

MAX_STATES = 16


class ReplicatedGroups:
    """The groups of a coordinator as of the high watermark. `groups` are the newest ones. Without `progress` every
    change counts as replicated."""

    def __init__(self, groups: Mapping[str, AnyGroup], progress: Callable[[str], Progress] | None) -> None:
        self._groups = groups
        self._states: ReplacedValues[AnyGroup | None] = ReplacedValues(progress, MAX_STATES)

    @property
    def copies(self) -> int:
        """The number of copies that are kept."""
        return self._states.count

    def note_append(self, group_id: str) -> None:
        """Keep the group as it is now. To be called after the append of its change, before the change is applied."""
        end = self._states.last_batch(group_id)
        if end is not None:
            self._states.keep(group_id, end, _copy(self._groups.get(group_id)))

    def of(self, group_id: str) -> AnyGroup | None:
        """Return a group as of the high watermark; None if it did not exist."""
        for group in self._states.of(group_id).values():
            return group
        return self._groups.get(group_id)

    def all(self) -> Iterator[AnyGroup]:
        """Yield every group as of the high watermark."""
        for group_id in {**self._groups, **dict.fromkeys(self._states)}:
            group = self.of(group_id)
            if group is not None:
                yield group

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Drop the copies of the groups for which `is_released` is true. Another broker coordinates them."""
        self._states.release(is_released)


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
