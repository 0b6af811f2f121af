"""Which records of a dead-letter topic were sent back, kept in consumer groups that are committed in the same
transaction as the records.

The group `kt-redrive-TOPIC` has the partitions of the dead-letter topic. A committed offset is the first offset that
was not sent back; its metadata has, as JSON, the topic's id and the ranges of later offsets that were sent back. So one
group serves every selection: a later run can send the records that a filter excluded, and sends no record twice.
`kt consumer-groups --reset-offsets` makes records available again. Offsets without a record count as sent.

A broker accepts 4096 characters of metadata (offset.metadata.max.bytes). Longer metadata continues in the groups
`kt-redrive-TOPIC:2` and so on, which are committed in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import GroupOffsets, fetch_offsets
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.json_texts import parse_json
from kafkatools.exit_status import CommandError
from kafkatools.tools.redrive.offset_ranges import OffsetRanges
from kafkatools.tools.rights import GROUP, Right, naming

_VERSION = 1
_GROUP_PREFIX = "kt-redrive-"
_PAGE_CHARACTERS = 3900
_MOST_PAGES = 16

SentOffsets = dict[int, OffsetRanges]
"""The offsets of each partition that were sent back."""


def is_progress_group(group_id: str) -> bool:
    """Return whether a group holds the progress of a dead-letter topic."""
    return group_id.startswith(_GROUP_PREFIX)


class RedriveGroup(NamedTuple):
    """The consumer group of a dead-letter topic with this id."""

    topic: str
    topic_id: str | None

    @property
    def group_id(self) -> str:
        """The group, which is also the transactional id."""
        return f"{_GROUP_PREFIX}{self.topic}"

    def page_id(self, page: int) -> str:
        """Return the group that holds a part of the metadata, the first one for 0."""
        return f"{self.group_id}:{page + 1}" if page else self.group_id

    def offsets(self, done: Mapping[int, OffsetRanges]) -> dict[str, dict[tuple[str, int], OffsetAndMetadata]]:
        """Return the offsets to commit, by group. Raises CommandError when there are more ranges than fit."""
        groups: dict[str, dict[tuple[str, int], OffsetAndMetadata]] = {}
        for partition, ranges in sorted(done.items()):
            offset = ranges.first_missing()
            text = ranges.encoded(offset)
            pages = [text[start : start + _PAGE_CHARACTERS] for start in range(0, len(text), _PAGE_CHARACTERS)] or [""]
            if len(pages) > _MOST_PAGES:
                raise CommandError(
                    f"{self.topic}-{partition}: there are too many gaps between the records that were sent back",
                    hint="Send the records in between, too: run kt redrive without a filter, or with a wider one.",
                )
            first = {"v": _VERSION, "id": self.topic_id, "pages": len(pages), "done": pages[0]}
            texts = [json.dumps(first, separators=(",", ":")), *pages[1:]]
            for page, metadata in enumerate(texts):
                committed = OffsetAndMetadata(offset, metadata=metadata)
                groups.setdefault(self.page_id(page), {})[self.topic, partition] = committed
        return groups

    def read(self, admin: AdminClient, *, is_final: bool = True) -> SentOffsets:
        """Return the stored progress, empty without any. `is_final`: no transaction of a run is open, else
        UnstableOffsetCommit is raised. Raises KafkaError, and CommandError for metadata of something else."""
        names = [self.page_id(page) for page in range(_MOST_PAGES)]
        first = self._offsets(admin, names[:1], is_final=is_final)[0]
        stored = {part: offset for (topic, part), offset in first.offsets.items() if topic == self.topic}
        headers = {part: self._header(part, offset) for part, offset in stored.items()}
        page_count = max((header.pages for header in headers.values() if header is not None), default=1)
        pages = self._offsets(admin, names[1:page_count], is_final=is_final)
        done: SentOffsets = {}
        for part, header in headers.items():
            if header is not None:
                others = [page.offsets.get((self.topic, part)) for page in pages[: header.pages - 1]]
                done[part] = self._ranges(part, stored[part].offset, header.done, others)
        return done

    @staticmethod
    def _offsets(admin: AdminClient, names: list[str], *, is_final: bool) -> list[GroupOffsets]:
        if not names:
            return []
        groups = fetch_offsets(admin, names, require_stable=is_final)
        for name, group in groups.items():
            error = group.error or next(iter(group.errors.values()), None)
            if error is not None:
                raise naming(error, Right("DESCRIBE", GROUP, name))
        return [groups[name] for name in names]

    def _header(self, partition: int, committed: OffsetAndMetadata) -> _Header | None:
        """Return the parsed metadata, None for that of an earlier topic with this name. A commit without metadata comes
        from a tool that reset the offsets."""
        if not committed.metadata:
            return _Header(1, "")
        try:
            values = parse_json(committed.metadata)
            header = _Header(int(values["pages"]), str(values["done"]))
            if values["v"] != _VERSION or not 1 <= header.pages <= _MOST_PAGES:
                raise ValueError("another version")
            return header if values["id"] == self.topic_id else None
        except (ValueError, KeyError, TypeError):
            raise self._unreadable(partition) from None

    def _ranges(self, partition: int, offset: int, text: str, others: list[OffsetAndMetadata | None]) -> OffsetRanges:
        for other in others:
            if other is None or other.offset != offset:
                raise self._unreadable(partition)
            text += other.metadata
        try:
            ranges = OffsetRanges.decoded(text, offset)
        except ValueError:
            raise self._unreadable(partition) from None
        ranges.add(0, offset)
        return ranges

    def _unreadable(self, partition: int) -> CommandError:
        return CommandError(
            f"The progress of {self.topic}-{partition} in the group {self.group_id} was not written by this version of "
            "kt redrive, or is incomplete: it is unknown which records were sent back",
            hint="Set the first offset to send: kt consumer-groups --reset-offsets --execute --group "
            f"{self.group_id} --topic {self.topic} --to-offset N",
        )


class _Header(NamedTuple):
    """The parsed metadata of the first group: the number of groups, and the first part of the ranges."""

    pages: int
    done: str
