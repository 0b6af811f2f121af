"""One run of kt migrate: rounds until the cut or an interruption, and the offsets of groups at the cut."""

from __future__ import annotations

import contextlib
import os

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, client_settings, read_properties
from kafkatools.options.connection import Connection, noting_changes_through
from kafkatools.options.profiles import find_profile
from kafkatools.options.topic_renames import target_names
from kafkatools.tools.backup.backup_run import BackupOptions, BackupRun
from kafkatools.tools.backup.clients import batch_producer, batch_reader
from kafkatools.tools.backup.group_restore import groups_for, restore_groups
from kafkatools.tools.backup.journal import forget
from kafkatools.tools.backup.migration import Migration, Round
from kafkatools.tools.backup.store import open_store
from kafkatools.tools.backup.targets import set_append_time
from kafkatools.tools.copying.client_cluster import ClientCluster, cluster_id
from kafkatools.tools.monitor.figures import size as size_text

_CLIENT_ID = "kt-migrate"
_CUT_INTERVAL_MS = 1000


def run_migrate(console: Console, args: Args) -> ExitStatus:
    """Run kt migrate, as its `run` says."""
    target, connection = _target(console, args)
    source = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    store = open_store(args.through, create=True)
    clock = console.clock
    with source.admin(clock) as source_admin, target.admin(clock) as target_admin, contextlib.ExitStack() as stack:
        noting_changes_through(console, target_admin, connection)
        identity = cluster_id(source_admin)
        if identity == cluster_id(target_admin) and not args.rename:
            raise UsageError("Source and target are the same cluster", "Give the topics other names with --rename.")
        stack.enter_context(store.lock())
        options = BackupOptions(args.topic, is_followed=True)
        migration = Migration(
            store,
            target_admin,
            lambda: BackupRun(store, source_admin, identity, lambda: batch_reader(source, clock), options),
            lambda manifest: target_names(manifest.topics, args.topic, args.rename),
            console.note,
        )
        with batch_producer(target, clock) as producer:
            if not _follow(console, args, migration, producer):
                return ExitStatus.OK
        return _cut(console, migration, target_admin)


def _target(console: Console, args: Args) -> tuple[ClientCluster, Connection]:
    """Return the target cluster and the connection to it. Raises UsageError or CommandError for a profile without
    brokers."""
    if args.to_bootstrap_server is not None:
        settings = read_properties(args.to_command_config) if args.to_command_config else {}
        connection = Connection(args.to_bootstrap_server, None, args.to_command_config)
        return ClientCluster(connection.servers, settings, _CLIENT_ID), connection
    profile = find_profile(args.to_profile, console.environ, os.getcwd())
    if profile is None or profile.bootstrap_servers is None:
        raise UsageError(f"The profile '{args.to_profile}' has no bootstrap_servers")
    connection = Connection(profile.bootstrap_servers, profile, None)
    return ClientCluster(connection.servers, profile.settings, _CLIENT_ID), connection


def _follow(console: Console, args: Args, migration: Migration, producer: BatchProducer) -> bool:
    """Copy round by round. Returns True at the cut; only an interruption ends it before."""
    interval_ms = min(args.interval, _CUT_INTERVAL_MS) if args.cut else args.interval
    while True:
        found = migration.round(producer)
        _report(console, found)
        if args.cut and not found.stored_bytes and not found.lag:
            return True
        console.flush()
        console.clock.sleep_ms(interval_ms)


def _report(console: Console, found: Round) -> None:
    for note in found.notes:
        console.note(note)
    row = {
        "kind": "round", "round": found.number, "stored_bytes": found.stored_bytes, "records": found.records,
        "lag": found.lag,
    }  # fmt: skip
    if console.is_json or found.records or found.stored_bytes or found.number == 1:
        console.print(
            f"Round {found.number}: {size_text(found.stored_bytes)} stored, {found.records} records written, "
            f"{found.lag} offsets behind",
            row,
        )


def _cut(console: Console, migration: Migration, admin: AdminClient) -> ExitStatus:
    """Map the offsets of groups and remove the marks of the targets."""
    manifest = migration.finish()
    groups, _ = groups_for(migration.store, manifest, migration.names, None)
    has_failed = False
    for outcome in restore_groups(admin, groups, migration.names, migration.target_offset):
        row = {"kind": "group", **outcome._asdict(), "reason": outcome.reason or None}
        reason = f"; not all: {outcome.reason}" if outcome.reason else ""
        console.print(f"group {outcome.group}: {outcome.committed} offsets{reason}", row)
        has_failed = has_failed or bool(outcome.reason)
    for target in migration.targets.values():
        if target.has_append_time:
            error = set_append_time(admin, target)
            if error is not None:
                console.error(f"message.timestamp.type=LogAppendTime was not set on {target.name}: {error}")
                has_failed = True
    if has_failed:
        console.note("Run the same command again when the causes are removed.")
        return ExitStatus.FAILED
    for target in migration.targets.values():
        forget(admin, target.mark, target.name)
    count = len(migration.targets)
    console.print(
        f"Cut: {count} topics and {len(groups)} groups can go on in the target",
        {"kind": "cut", "topics": count, "groups": len(groups), "generation": manifest.generation},
    )
    return ExitStatus.OK
