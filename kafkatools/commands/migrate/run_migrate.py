"""One run of kt migrate: rounds until the cut or an interruption, and the offsets of groups at the cut."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kafkatools.commands.migrate.clusters import Clusters, migrated_names
from kafkatools.commands.migrate.dry_run import print_plan
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import describe_groups
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, client_settings
from kafkatools.options.common import properties_file
from kafkatools.options.connection import Connection, noting_changes_through
from kafkatools.output import counted
from kafkatools.tools.backup.access_restore import KINDS, check_access, restore_access
from kafkatools.tools.backup.backup_run import BackupOptions, BackupRun
from kafkatools.tools.backup.clients import batch_producer, batch_reader
from kafkatools.tools.backup.cluster_state import read_access
from kafkatools.tools.backup.cuts import write_cut
from kafkatools.tools.backup.group_restore import groups_for, restore_groups
from kafkatools.tools.backup.journal import forget
from kafkatools.tools.backup.manifest import Manifest
from kafkatools.tools.backup.migration import Migration, Round, Waiting
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.targets import set_append_times
from kafkatools.tools.copying.client_cluster import ClientCluster, cluster_id
from kafkatools.tools.monitor.figures import size as size_text

_CLIENT_ID = "kt-migrate"
_CUT_INTERVAL_MS = 1000


def run_migrate(console: Console, args: Args) -> ExitStatus:
    """Run kt migrate, as its `run` says."""
    target, connection = _target(console, args)
    source = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    store = open_store(args.through, create=not args.dry_run, may_be_missing=args.dry_run)
    clock = console.clock
    with source.admin(clock) as source_admin, target.admin(clock) as target_admin, contextlib.ExitStack() as stack:
        noting_changes_through(console, target_admin, connection)
        clusters = Clusters(source_admin, target_admin, cluster_id(source_admin), cluster_id(target_admin))
        if clusters.are_same and not args.rename:
            raise UsageError("Source and target are the same cluster", "Give the topics other names with --rename.")
        if clusters.are_same and not args.topic:
            raise UsageError(
                "Source and target are the same cluster: the copies would be topics of the source, and copied again",
                "Name the topics with --topic.",
            )
        access = [kind for kind in KINDS if getattr(args, kind)]
        _check_access(clusters, access)
        options = BackupOptions(args.topic, is_followed=True)

        def new_backup() -> BackupRun:
            return BackupRun(store, source_admin, clusters.source_id, lambda: batch_reader(source, clock), options)

        if args.dry_run:
            return print_plan(console, args, store, clusters, new_backup(), access)
        stack.enter_context(store.lock())
        migration = Migration(
            store,
            target_admin,
            new_backup,
            lambda manifest: migrated_names(manifest, args, clusters),
            console.note,
        )
        with batch_producer(target, clock) as producer:
            _follow(console, args, migration, producer)
        return _cut(console, migration, clusters, access)


def _check_access(clusters: Clusters, kinds: list[str]) -> None:
    """Raise CommandError if the source's access rights of these kinds cannot be read, or not set in the target."""
    if kinds:
        manifest = Manifest(1, clusters.source_id, 0)
        read_access(clusters.source, manifest)
        check_access(clusters.target, manifest, {}, kinds, "The source")


def _target(console: Console, args: Args) -> tuple[ClientCluster, Connection]:
    """Return the target cluster and the connection to it. Raises UsageError or CommandError for a profile without
    brokers."""
    if args.to_bootstrap_server is not None:
        settings = properties_file(args, "to_command_config")
        connection = Connection(args.to_bootstrap_server, None, args.to_command_config)
        return ClientCluster(connection.servers, settings, _CLIENT_ID), connection
    profile = args.target_profile
    if profile is None or profile.bootstrap_servers is None:
        raise UsageError(f"The profile '{args.to_profile}' has no bootstrap_servers")
    connection = Connection(profile.bootstrap_servers, profile, None)
    return ClientCluster(connection.servers, args.indirect.of_profile(profile), _CLIENT_ID), connection


def _follow(console: Console, args: Args, migration: Migration, producer: BatchProducer) -> None:
    """Copy round by round until the cut; without --cut only an interruption ends it."""
    interval_ms = min(args.interval, _CUT_INTERVAL_MS) if args.cut else args.interval
    earlier: Sequence[Waiting] = ()
    named: set[Waiting] = set()
    noted: set[str] = set()
    while True:
        found = migration.round(producer)
        _report(console, found, noted)
        for waiting in found.waiting:
            if waiting in earlier and waiting not in named:
                named.add(waiting)
                console.note(_waiting_text(waiting))
        earlier = found.waiting
        if args.cut and found.unread:
            raise _not_cut(found.unread)
        if args.cut and not found.stored_bytes and not found.lag:
            return
        console.flush()
        console.clock.sleep_ms(interval_ms)


def _not_cut(unread: Sequence[TopicPartition]) -> CommandError:
    verb = "was" if len(unread) == 1 else "were"
    return CommandError(
        f"No cut: {counted(len(unread), 'partition')} {verb} not read to the end, such as {unread[0]}",
        hint="Run the same command again when the brokers of the source serve all partitions.",
    )


def _waiting_text(waiting: Waiting) -> str:
    part = waiting.partition
    return (
        f"{part} waits at offset {waiting.offset} for the end of a transaction of producer {waiting.producer_id}. "
        f"If it never ends: kt transactions abort --topic {part.topic} --partition {part.partition} "
        f"--start-offset {waiting.offset}"
    )


def _report(console: Console, found: Round, noted: set[str]) -> None:
    """Print a round, with its notes that no earlier round had: `noted`."""
    for note in found.notes:
        if note not in noted:
            noted.add(note)
            console.note(note)
    row = {
        "kind": "round", "round": found.number, "stored_bytes": found.stored_bytes, "records": found.records,
        "lag": None if found.unread else found.lag, "unread_partitions": len(found.unread),
    }  # fmt: skip
    behind = f"{counted(found.lag, 'offset')} behind"
    if found.unread:
        behind = f"at least {behind}, {counted(len(found.unread), 'partition')} not read"
    if console.is_json or found.records or found.stored_bytes or found.unread or found.number == 1:
        console.print(
            f"Round {found.number}: {size_text(found.stored_bytes)} stored, "
            f"{counted(found.records, 'record')} written, {behind}",
            row,
        )


def _cut(console: Console, migration: Migration, clusters: Clusters, access: list[str]) -> ExitStatus:
    """Map the offsets of groups, copy access rights, and remove the marks of the targets."""
    manifest, state = migration.finish()
    for line in state.lines:
        console.note(line)
    groups, _ = groups_for(migration.store, manifest, migration.names, None)
    _note_members(console, clusters.source, list(groups))
    has_failed = bool(state.unread)
    for outcome in restore_groups(clusters.target, groups, migration.names, migration.target_offset):
        row = {"kind": "group", **outcome._asdict(), "reason": outcome.reason or None}
        reason = f"; not all: {outcome.reason}" if outcome.reason else ""
        console.print(f"group {outcome.group}: {counted(outcome.committed, 'offset')}{reason}", row)
        has_failed = has_failed or bool(outcome.reason)
    for changed in restore_access(clusters.target, manifest, migration.names, access):
        for line in changed.failures:
            console.error(line)
            has_failed = True
        console.print(f"{changed.kind}: {changed.changes} changed", {"kind": changed.kind, "changes": changed.changes})
    if not has_failed:  # else the next run may still write records, whose timestamps would be replaced
        for line in set_append_times(clusters.target, migration.targets.values(), console.note):
            console.error(line)
            has_failed = True
    if has_failed:
        console.note("Run the same command again when the causes are removed.")
        return ExitStatus.FAILED
    write_cut(migration.store, migration.targets.values())
    for target in migration.targets.values():
        forget(clusters.target, target.mark, target.name)
    count = len(migration.targets)
    console.print(
        f"Cut: {counted(count, 'topic')} and {counted(len(groups), 'group')} can go on in the target",
        {"kind": "cut", "topics": count, "groups": len(groups), "generation": manifest.generation},
    )
    return ExitStatus.OK


def _note_members(console: Console, source: AdminClient, groups: Sequence[str]) -> None:
    """Name groups that still consume in the source: what they commit after the cut is not in the target."""
    used = [name for name, group in describe_groups(source, groups).items() if group.error is None and group.members]
    if used:
        verb = "has" if len(used) == 1 else "have"
        console.note(
            f"{counted(len(used), 'group')} still {verb} members in the source, such as {used[0]}: offsets that are "
            "committed there from now on are not in the target"
        )
