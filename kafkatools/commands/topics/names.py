"""kt topics --list, and the topics that --topic of kt topics matches, as in TopicCommand."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import list_topics
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import INTERNAL_TOPICS, Args, TopicFilter, client_settings


def run_list(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print the topics of --topic, or all topics."""
    for name in matching_names(admin, args, exclude_internal=args.exclude_internal):
        console.print(name, {"topic": name, "internal": name in INTERNAL_TOPICS})
    return ExitStatus.OK


def matching_names(admin: AdminClient, args: Args, *, exclude_internal: bool) -> list[str]:
    """Return the sorted names that the regular expression of --topic matches; all topics without --topic.

    Follows TopicService.getTopics. Raises CommandError for an invalid expression.
    """
    requested = None
    if args.topic is not None:
        try:
            requested = TopicFilter(args.topic)
        except ValueError as error:
            raise CommandError(str(error)) from None
    names = sorted(listing.name for listing in list_topics(admin))
    if requested is None:
        return [name for name in names if not (exclude_internal and name in INTERNAL_TOPICS)]
    return [name for name in names if requested.takes(name, exclude_internal=exclude_internal)]


def ensure_matches(matches: Sequence[object], args: Args) -> None:
    """Raise CommandError if --topic is used and no topic was found, unless --if-exists."""
    if args.topic is not None and not matches and not args.if_exists:
        has_users = client_settings(args).get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"
        hint = "It does not exist, or this user may not describe it (kt acls --list)." if has_users else ""
        kind = "UNKNOWN_TOPIC_OR_PARTITION"
        raise CommandError(f"Topic '{args.topic}' does not exist as expected", kind=kind, hint=hint)


def targets(console: Console, args: Args, admin: AdminClient) -> list[str]:
    """Return the topics that --alter or --delete changes, and print what a pattern matched before they are changed.

    A --topic that is the exact name of a topic selects this topic only. A pattern never selects internal topics.
    """
    names = matching_names(admin, args, exclude_internal=False)
    ensure_matches(names, args)
    if args.topic in names:
        if len(names) > 1:
            other_names = ", ".join(name for name in names if name != args.topic)
            console.note(
                f"Only topic {args.topic} is selected, although as a regular expression the name also matches "
                f"{other_names}."
            )
        return [args.topic]
    internal_topics = [name for name in names if name in INTERNAL_TOPICS]
    names = [name for name in names if name not in INTERNAL_TOPICS]
    if internal_topics:
        console.note(
            f"Internal topics are selected only by their exact names, so these are not: {', '.join(internal_topics)}."
        )
    if names:
        console.note(f"'{args.topic}' matches {len(names)} topic{'s' * (len(names) > 1)}: {', '.join(names)}.")
    return names
