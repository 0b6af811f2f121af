"""Topic patterns of consumer groups (subscribed_topic_regex, KIP-848): checked at once, resolved after the response.

Patterns are resolved again when topics are created or the last result is old, but not within LEAST_REFRESH_INTERVAL_MS.
`core/java/re2_patterns.py` compiles them, and no pattern takes long. Matching runs in slices of some milliseconds. A
pattern must match the whole name. Source: GroupMetadataManager and TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import (
    Change,
    GroupEpochChange,
    RegexChange,
    ResolvedRegex,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_course import (
    METADATA_REFRESH_INTERVAL_MS,
    ConsumerCourse,
    Draft,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import ConsumerMember
from kafkatools.core.errors import InvalidRegularExpression
from kafkatools.core.java.re2_patterns import InvalidPattern, Matcher, compile_re2

LEAST_REFRESH_INTERVAL_MS = 10_000
MayDescribe = Callable[[str], bool]
_NEVER = -(1 << 63)


@lru_cache(maxsize=64)
def compiled(pattern: str, name: str = "SubscribedTopicRegex") -> Matcher:
    """Compile an RE2 pattern. Raises InvalidRegularExpression, which names the request field `name`."""
    try:
        return compile_re2(pattern)
    except InvalidPattern as invalid:
        raise InvalidRegularExpression(f"{name} `{pattern}` is not a valid regular expression: {invalid}.") from None


def everything(_topic: str) -> bool:
    """Return True for every topic: the default of `may_describe`."""
    return True


class TopicRegexes:
    """Resolves the topic patterns of consumer groups."""

    def __init__(self, course: ConsumerCourse) -> None:
        self._course = course

    def update(
        self, draft: Draft, current: ConsumerMember, updated: ConsumerMember, may_describe: MayDescribe = everything
    ) -> tuple[bool, bool]:
        """Add a member's changed pattern to the draft, and schedule the resolution of the group's patterns if it is
        due. Returns whether the pattern changed, and whether a changed pattern needs no resolution: it is empty or
        already resolved. Raises InvalidRegularExpression."""
        group = draft.group
        old, new = current.subscribed_topic_regex, updated.subscribed_topic_regex
        counts = group.regex_counts(group.members.values())
        is_resolved = needs_refresh = False
        if old != new:
            if old and counts[old] == 1:
                draft.changes.append(RegexChange(old, None))
            if new and not counts[new]:
                compiled(new)
                needs_refresh = True
            else:
                is_resolved = not new or new in group.regexes
        if needs_refresh or counts:
            regexes = set(group.regex_counts(group.members_with(updated)))
            self._maybe_refresh(draft, regexes, may_describe, is_needed=needs_refresh)
        return old != new, is_resolved

    def _maybe_refresh(self, draft: Draft, regexes: set[str], may_describe: MayDescribe, *, is_needed: bool) -> None:
        group, now_ms = draft.group, self._course.clock.wall_ms()
        if self._course.timer.is_scheduled(("regex", group.group_id)):
            return
        last = next(iter(group.regexes.values()), ResolvedRegex(frozenset(), 0, _NEVER))
        if now_ms <= last.timestamp_ms + LEAST_REFRESH_INTERVAL_MS:
            return
        is_due = (
            is_needed
            or len(regexes) != len(group.regexes)
            or last.version < self._course.topics.version_with_new_topics
            or now_ms > last.timestamp_ms + self._course.settings.config.group_consumer_regex_refresh_interval_ms
        )
        if is_due and regexes:
            draft.callbacks.append(lambda: self._schedule(group.group_id, regexes, may_describe))

    def _schedule(self, group_id: str, regexes: Iterable[str], may_describe: MayDescribe) -> None:
        """Resolve the patterns after the response to this request. Kafka does it on another thread."""
        self._course.timer.schedule(("regex", group_id), 0, lambda: self._resolve(group_id, regexes, may_describe))

    def _resolve(self, group_id: str, regexes: Iterable[str], may_describe: MayDescribe) -> None:
        group = self._course.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        topics = self._course.topics
        names, version = list(filter(may_describe, topics.names())), topics.version
        matches: dict[str, set[str]] = {regex: set() for regex in regexes}

        def match() -> Iterator[None]:
            for regex, found in matches.items():
                for name in names:
                    if compiled(regex).fullmatch(name):
                        found.add(name)
                    yield

        self._course.timer.run_in_slices(
            ("regex", group_id), match(), lambda: self._note_matches(group_id, matches, version)
        )

    def _note_matches(self, group_id: str, matches: dict[str, set[str]], version: int) -> None:
        group = self._course.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        now_ms = self._course.clock.wall_ms()
        resolved = {regex: ResolvedRegex(frozenset(topics), version, now_ms) for regex, topics in matches.items()}
        self._write_resolved(group, resolved, now_ms)

    def _write_resolved(self, group: ConsumerGroup, resolved_regexes: dict[str, ResolvedRegex], now_ms: int) -> None:
        """Write the topics of patterns that are still used. Raises the group epoch if the topics changed."""
        use_counts = group.regex_counts(group.members.values())
        used_regexes = {regex: resolved for regex, resolved in resolved_regexes.items() if use_counts[regex]}
        changes: list[Change] = [RegexChange(regex, resolved) for regex, resolved in used_regexes.items()]
        topics_before = {regex: resolved.topics for regex, resolved in group.regexes.items()}
        has_changed = any(
            topics_before.get(regex, frozenset()) != resolved.topics for regex, resolved in used_regexes.items()
        )
        topics = group.topics_of(group.members.values(), {**group.regexes, **used_regexes})
        metadata_hash = self._course.topics.group_hash(topics)
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.group_epoch + 1
            changes.append(GroupEpochChange(epoch, metadata_hash))
            group.set_refresh_deadline(now_ms + METADATA_REFRESH_INTERVAL_MS, epoch)
        self._course.write(Draft(group, changes))
