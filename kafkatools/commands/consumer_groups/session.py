"""Code that kt consumer-groups, share-groups and streams-groups share: errors, the choice of groups, deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kafkatools.commands.consumer_groups.shared_options import TYPES
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import (
    CONSUMER_PROTOCOLS,
    SHARE,
    STREAMS,
    GroupListing,
    GroupListings,
    delete_groups,
    list_groups,
)
from kafkatools.core.control_characters import json_safe
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.options.connection import connect_admin


class Session(NamedTuple):
    """Console, options and AdminClient of one action."""

    console: Console
    args: Args
    admin: AdminClient

    def complain(self, message: str, kind: str = "FAILED", **fields: object) -> None:
        """Print a failure on stderr, after which the command continues. With --json the line has `kind` and the keys of
        `fields`."""
        self.console.error(message, kind, **fields)

    def complain_of_group(self, group_id: str, error: KafkaError) -> None:
        """Print the error of a group on stderr, with the group id unless the error names it."""
        text = str(error)
        message = text if group_id in text else f"group {group_id}: {text}"
        self.complain(self.args.command.error_prefix + message, error.name, group=group_id)

    def groups_in_order(self, listings: GroupListings) -> tuple[list[GroupListing], bool]:
        """Return the listed groups in the order of Kafka's HashMap, and whether every broker answered.

        Errors of single brokers are printed. Raises KafkaError when no broker answered.
        """
        if not listings.has_responses:
            raise next(iter(listings.errors.values()))
        for node, error in listings.errors.items():
            prefix = f"broker {node}: " if node >= 0 else ""
            self.complain(f"{self.args.command.error_prefix}{prefix}{error}", error.name, broker=node)
        by_name = {listing.group_id: listing for listing in listings.groups}
        return [by_name[name] for name in hash_order(by_name)], not listings.errors

    def print_json(self, row: dict[str, object]) -> None:
        """Print a row of texts and numbers as a line of JSON, without the search for bytes in Console.print_json."""
        import json

        self.console.print(json_safe(json.dumps(row, ensure_ascii=False, separators=(",", ":"))))


def carry_out(console: Console, args: Args, action: Callable[[Session], ExitStatus]) -> ExitStatus:
    """Connect to the cluster, run an action with the time limit of --timeout, and return its exit status."""
    with connect_admin(console, args) as admin:
        admin.timeout_ms = args.timeout
        return action(Session(console, args, admin))


def consumer_groups(
    session: Session, states: Collection[str] = (), types: Collection[str] = TYPES
) -> tuple[list[GroupListing], bool]:
    """List the consumer groups in these states (empty: all) and of these types. Returns them, and whether every broker
    answered; raises KafkaError when none did."""
    listings = list_groups(
        session.admin,
        states=states,
        types=[group_type.lower() for group_type in types],
        protocol_types=CONSUMER_PROTOCOLS,
    )
    return session.groups_in_order(listings)


def share_groups(session: Session, states: Collection[str] = ()) -> tuple[list[GroupListing], bool]:
    """List the share groups in these states (empty: all). Returns them, and whether every broker answered; raises
    KafkaError when none did."""
    return session.groups_in_order(list_groups(session.admin, states=states, types=(SHARE.lower(),)))


def streams_groups(session: Session, states: Collection[str] = ()) -> tuple[list[GroupListing], bool]:
    """List the streams groups in these states (empty: all). Returns them, and whether every broker answered; raises
    KafkaError when none did."""
    return session.groups_in_order(list_groups(session.admin, states=states, types=(STREAMS.lower(),)))


def requested_groups(
    session: Session, doing: str, list_kind: Callable[[Session], tuple[list[GroupListing], bool]] = consumer_groups
) -> tuple[list[str], bool]:
    """Return the groups of --group or --all-groups, and whether every broker listed its groups (True for --group,
    without a request). `list_kind` lists the groups of a kind. Raises KafkaError when no broker answered.

    With a verb in `doing`, such as "Deleting", the groups of --all-groups are printed on stderr.
    """
    if not session.args.all_groups:
        return list(dict.fromkeys(session.args.group)), True
    listings, is_complete = list_kind(session)
    names = [listing.group_id for listing in listings]
    if doing:
        _note_all_groups(session, doing, names)
    return names, is_complete


def _note_all_groups(session: Session, doing: str, names: Sequence[str]) -> None:
    if names:
        session.console.note(f"{doing} {len(names)} group{'s' * (len(names) > 1)}: {', '.join(sorted(names))}.")


def deletable_groups(
    session: Session, kind: str, listed: tuple[list[GroupListing], bool], missing: str
) -> tuple[list[str], dict[str, str], bool]:
    """Return the groups of --delete, the reason for each that cannot be deleted, and whether every broker listed its
    groups. `kind`: Share or Streams; `missing`: the reason for a group that is not in `listed`."""
    args, (listings, is_complete) = session.args, listed
    states = {listing.group_id: listing.state for listing in listings}
    names = list(states) if args.all_groups else list(dict.fromkeys(args.group))
    if args.all_groups and not args.dry_run:
        _note_all_groups(session, "Deleting", names)
    refused = {}
    for name in names:
        state = states.get(name)
        if state is None:
            refused[name] = missing.format(name)
        elif state == "Dead":
            refused[name] = f"{kind} group '{name}' group state is DEAD."
        elif state != "Empty":
            refused[name] = f"{kind} group '{name}' is not EMPTY."
    return names, refused, is_complete


def delete_deletable(
    session: Session, kind: str, names: Sequence[str], refused: Mapping[str, str]
) -> Mapping[str, str]:
    """Delete the groups that are not in `refused`, and print the outcome of all. Returns why groups were not deleted.
    `kind`: `share` or `streams`. Raises KafkaError."""
    requested = [name for name in names if name not in refused]
    outcome = delete_groups(session.admin, requested) if requested else {}
    failed = {**refused, **{name: str(error) for name, error in outcome.items() if error is not None}}
    report_deletions(session, kind, hash_order(names), failed)
    return failed


def show_deletions(
    session: Session, names: Sequence[str], refused: Mapping[str, object], counts: Mapping[str, int] | None = None
) -> ExitStatus:
    """Print which groups --delete would delete, and the error of each group in `refused`. Returns FAILED if there is
    one.

    `counts`: the number of committed offsets of each group that would be deleted.
    """
    for name in names:
        error = refused.get(name)
        row = {"group": name, "deleted": False, "error": None if error is None else str(error)}
        line = f"Group '{name}' would be deleted"
        if counts is not None and error is None:
            offsets = row["offset_count"] = counts[name]
            line += f", with {offsets} offset{'s' * (offsets != 1)}"
        failure = "" if error is None else f"Error: Group '{name}' could not be deleted due to: {error}"
        session.console.print_outcome(row, f"{line}.", failure)
    if not names and not session.args.json:
        session.console.note("Nothing would change.")
    return ExitStatus.FAILED if any(refused.values()) else ExitStatus.OK


def report_deletions(session: Session, kind: str, names: Sequence[str], failed: Mapping[str, object]) -> None:
    """Print which groups were deleted, and why the groups in `failed` were not. `kind`: `consumer`, `share`
    or `streams`."""
    if session.args.json:
        for name in names:
            error = str(failed[name]) if name in failed else None
            session.print_json({"group": name, "deleted": error is None, "error": error})
        return
    console = session.console
    names_text = ", ".join(f"'{name}'" for name in names if name not in failed)
    if not failed:
        none = "''" if kind == "streams" else ""  # as by Kafka's tools
        console.print(f"Deletion of requested {kind} groups ({names_text or none}) was successful.")
        return
    console.error(f"Error: Deletion of some {kind} groups failed:")
    for name in names:
        if name in failed:
            console.error(f"* Group '{name}' could not be deleted due to: {failed[name]}")
    if names_text:
        console.print()
        console.print(f"These {kind} groups were deleted successfully: {names_text}")
