"""What the actions of `kt consumer-groups` share: where they print, whom they ask, which groups are meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.groups import GroupListing, GroupListings
    from kafkatools.core.errors import KafkaError
    from kafkatools.exit_status import ExitStatus
    from kafkatools.options import Args

FAILED = "Error: Executing consumer group command failed due to "
TYPES = ("Consumer", "Classic")
STATES = ("Dead", "CompletingRebalance", "Stable", "Assigning", "Empty", "PreparingRebalance", "Reconciling")
_MAX_SECONDS = 1e9


def positive_seconds(text: str) -> float:
    """A number of seconds greater than 0. Raises ValueError."""
    seconds = float(text)
    if not 0 < seconds < _MAX_SECONDS:
        raise ValueError(text)
    return seconds


class Session(NamedTuple):
    """What an action works with."""

    console: Console
    args: Args
    admin: AdminClient
    failed: str = FAILED

    def complain(self, message: str, kind: str = "FAILED", **more: object) -> None:
        """A failure that does not end the run: one line on stderr."""
        self.console.error(message, kind, **more)

    def complain_of_group(self, group_id: str, error: KafkaError) -> None:
        """A group that could not be worked on. `error`'s words name it where they are Kafka's."""
        text = str(error)
        named = text if group_id in text else f"group {group_id}: {text}"
        self.complain(self.failed + named, error.name, group=group_id)

    def ordered(self, found: GroupListings) -> tuple[list[GroupListing], bool]:
        """The listed groups in the order of Kafka's hash map, and whether every broker answered; one that did not is
        named on stderr. Raises KafkaError when no broker did."""
        from kafkatools.core.java.hash_order import hash_order

        if not found.has_answers:
            raise next(iter(found.errors.values()))
        for node, error in found.errors.items():
            where = f"broker {node}: " if node >= 0 else ""
            self.complain(f"{self.failed}{where}{error}", error.name, broker=node)
        by_name = {listing.group_id: listing for listing in found.groups}
        return [by_name[name] for name in hash_order(by_name)], not found.errors

    def print_json(self, row: dict[str, object]) -> None:
        """One line of --json. There are only texts and numbers in it, and no bytes to look for."""
        import json

        from kafkatools.core.control_characters import json_safe

        self.console.print(json_safe(json.dumps(row, ensure_ascii=False, separators=(",", ":"))))


def carry_out(
    console: Console, args: Args, action: Callable[[Session], ExitStatus], failed: str = FAILED
) -> ExitStatus:
    """Connect to the cluster and do what was prepared."""
    from kafkatools.options.connection import connect_admin

    with connect_admin(console, args) as admin:
        admin.timeout_ms = args.timeout
        return action(Session(console, args, admin, failed))


def consumer_groups(
    session: Session, states: Collection[str] = (), types: Collection[str] = TYPES
) -> tuple[list[GroupListing], bool]:
    """All groups of consumers in the order of Kafka's hash map, and whether every broker answered.

    Raises KafkaError when no broker did.
    """
    from kafkatools.core.admin.groups import CONSUMER_PROTOCOLS, list_groups

    found = list_groups(
        session.admin, states=states, types=[one.lower() for one in types], protocol_types=CONSUMER_PROTOCOLS
    )
    return session.ordered(found)


def chosen_groups(session: Session, doing: str) -> tuple[list[str], bool]:
    """The groups of --group or --all-groups, and whether all brokers told theirs.

    With a word in `doing` what --all-groups means is said on stderr.
    """
    if not session.args.all_groups:
        return list(dict.fromkeys(session.args.group)), True
    listings, is_complete = consumer_groups(session)
    names = [listing.group_id for listing in listings]
    if doing and names:
        session.console.note(f"{doing} {len(names)} group{'s' * (len(names) > 1)}: {', '.join(sorted(names))}.")
    return names, is_complete
