"""One run of kt restore: check the targets, write the records, map the offsets of groups, and print the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import KafkaError
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, client_settings
from kafkatools.options.connection import connect_admin
from kafkatools.options.slices import parse_time
from kafkatools.options.topic_renames import target_names
from kafkatools.output import counted
from kafkatools.tools.backup.abandoned import forget_mixed, remove_empty
from kafkatools.tools.backup.access_restore import KINDS, check_access, planned_access, restore_access
from kafkatools.tools.backup.clients import batch_producer
from kafkatools.tools.backup.cluster_state import read_configs
from kafkatools.tools.backup.generations import required_manifest
from kafkatools.tools.backup.group_restore import Groups, check_groups, groups_for, offsets_to_map, restore_groups
from kafkatools.tools.backup.journal import forget
from kafkatools.tools.backup.manifest import Manifest
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.partition_restore import Cut, find_cut
from kafkatools.tools.backup.restore_run import RestoreRun
from kafkatools.tools.backup.store import Store
from kafkatools.tools.backup.targets import Target, create_missing, find_targets, set_append_times, validate_missing
from kafkatools.tools.copying.client_cluster import ClientCluster
from kafkatools.tools.monitor.figures import size as size_text
from kafkatools.tools.rights import is_missing_right

_CLIENT_ID = "kt-restore"


def run_restore(console: Console, args: Args) -> ExitStatus:
    """Run kt restore, as its `run` says."""
    until_ms = _until(args, console.clock.wall_ms())
    store = open_store(getattr(args, "from"))
    manifest = required_manifest(store, args.generation)
    names = target_names(manifest.topics, args.topic, args.rename)
    groups, missing = ({}, "") if args.no_groups else groups_for(store, manifest, names, until_ms)
    if missing:
        console.note(missing)
    cluster = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    with connect_admin(console, args) as admin:
        targets = find_targets(admin, manifest, names, until_ms)
        restore = _Restore(console, args, cluster, admin, store, manifest, names)
        check_access(admin, manifest, names, restore.access_kinds, "The backup")
        if args.dry_run:
            return restore.print_plan(targets, groups, until_ms)
        return restore.run(targets, groups, until_ms)


def _until(args: Args, now_ms: int) -> int | None:
    if args.until is None:
        return None
    try:
        return parse_time(args.until, now_ms)
    except ValueError as error:
        raise UsageError(f"--until: {error}") from None


class _Restore:
    """A run with its cluster, backup and target names."""

    def __init__(
        self,
        console: Console,
        args: Args,
        cluster: ClientCluster,
        admin: AdminClient,
        store: Store,
        manifest: Manifest,
        names: Mapping[str, str],
    ) -> None:
        self._console, self._args, self._cluster, self._admin = console, args, cluster, admin
        self._store, self._manifest, self._names = store, manifest, names
        self.access_kinds = [kind for kind in KINDS if getattr(args, kind)]
        self._has_failed = False

    # -- --dry-run --

    def print_plan(self, targets: Sequence[Target], groups: Groups, until_ms: int | None) -> ExitStatus:
        """Print the topics, groups, ACLs and quotas that would be restored."""
        validate_missing(self._admin, targets, self._args.replication_factor, self._console.note)
        cuts = self._cuts(targets, until_ms)
        for target in targets:
            parts = [cuts[TopicPartition(target.source, number)] for number in range(len(target.backup.partitions))]
            ends, size = [cut.offset for cut in parts], sum(cut.bytes for cut in parts)
            row = {
                "kind": "topic", "source": target.source, "target": target.name, "action": target.action,
                "partitions": len(ends), "stored_bytes": size, "source_ends": ends,
            }  # fmt: skip
            self._console.print(
                f"{target.source} -> {target.name}: {target.action}, {counted(len(ends), 'partition')}, "
                f"{size_text(size)}",
                row,
            )
        for group in check_groups(self._admin, groups, self._names):
            row = {"kind": "group", "group": group.group, "offsets": group.committed, "reason": group.reason or None}
            reason = f"; not all: {group.reason}" if group.reason else ""
            self._console.print(f"group {group.group}: {counted(group.committed, 'offset')}{reason}", row)
            self._has_failed = self._has_failed or bool(group.reason)
        for outcome in planned_access(self._admin, self._manifest, self._names, self.access_kinds):
            row = {"kind": outcome.kind, "changes": outcome.changes}
            self._console.print(f"{outcome.kind}: {outcome.changes} to change", row)
        return ExitStatus.FAILED if self._has_failed else ExitStatus.OK

    # -- the restore --

    def run(self, targets: Sequence[Target], groups: Groups, until_ms: int | None) -> ExitStatus:
        """Restore everything. Returns FAILED if something beside the records could not be restored. A failure before
        that removes the topics that it leaves empty."""
        console = self._console
        cuts = self._cuts(targets, until_ms)
        self._note_open(cuts)
        run = RestoreRun(self._store, targets, cuts, offsets_to_map(groups))
        try:
            self._write(targets, run, sum(cut.bytes for cut in cuts.values()))
        except (CommandError, KafkaError):
            forget_mixed(self._admin, targets, run.mixed_topics)
            remove_empty(self._admin, targets, console.note)
            raise
        self._report_topics(targets, run)
        for outcome in restore_groups(self._admin, groups, self._names, run.target_offset):
            row = {"kind": "group", **outcome._asdict(), "reason": outcome.reason or None}
            reason = f"; not all: {outcome.reason}" if outcome.reason else ""
            console.print(f"group {outcome.group}: {counted(outcome.committed, 'offset')}{reason}", row)
            self._has_failed = self._has_failed or bool(outcome.reason)
        for changed in restore_access(self._admin, self._manifest, self._names, self.access_kinds):
            for line in changed.failures:
                self._fail(line)
            console.print(
                f"{changed.kind}: {changed.changes} changed", {"kind": changed.kind, "changes": changed.changes}
            )
        for line in set_append_times(self._admin, targets, console.note):
            self._fail(line)
        if self._has_failed:
            console.note("Run the same command again when the causes are removed, or with --no-groups to do without.")
            return ExitStatus.FAILED
        for target in targets:
            forget(self._admin, target.mark, target.name)
        return ExitStatus.OK

    def _write(self, targets: Sequence[Target], run: RestoreRun, total: int) -> None:
        """Create the missing topics and write all records. Raises CommandError, KafkaError."""
        create_missing(self._admin, targets, self._args.replication_factor, self._console.note)
        self._note_retention(targets)
        run.begin()
        label = f"Restoring from {self._store.url}"
        with self._console.progress(label, total, measure=lambda: run.acknowledged_bytes, is_bytes=True):
            run.run(self._producer)

    def _cuts(self, targets: Sequence[Target], until_ms: int | None) -> dict[TopicPartition, Cut]:
        return {
            TopicPartition(target.source, number): find_cut(self._store, backup, until_ms)
            for target in targets
            for number, backup in enumerate(target.backup.partitions)
        }

    def _note_open(self, cuts: Mapping[TopicPartition, Cut]) -> None:
        """Name open transactions, which are left out, and partitions whose backup is incomplete."""
        for key, cut in cuts.items():
            partition = self._manifest.topics[key.topic].partitions[key.partition]
            if cut.open:
                first = min(cut.open.values())
                self._console.note(f"{key}: a transaction that is open at the end is left out, from offset {first} on")
            if partition.unread:
                self._console.note(
                    f"{key} was not backed up to its end, only to {partition.next_offset}: {partition.unread}"
                )

    def _producer(self) -> BatchProducer:
        return batch_producer(self._cluster, self._console.clock)

    def _report_topics(self, targets: Sequence[Target], run: RestoreRun) -> None:
        for target in targets:
            parts = [run.partitions[TopicPartition(target.source, n)] for n in range(len(target.backup.partitions))]
            records, present = sum(part.records for part in parts), sum(part.present for part in parts)
            earlier = f", {present} of them by an earlier run" if present else ""
            row = {
                "kind": "topic", "source": target.source, "target": target.name, "action": target.action,
                "partitions": len(parts), "records": records, "earlier_records": present,
                "bytes": sum(part.bytes for part in parts),
            }  # fmt: skip
            self._console.print(
                f"{target.source} -> {target.name}: {counted(records, 'record')} in "
                f"{counted(len(parts), 'partition')}{earlier}",
                row,
            )

    def _note_retention(self, targets: Sequence[Target]) -> None:
        """Name the topics whose retention will delete restored records."""
        now_ms = self._console.clock.wall_ms()
        try:
            configs = read_configs(self._admin, [target.name for target in targets])
        except KafkaError as error:
            if not is_missing_right(error):
                raise
            self._console.note(
                f"The retention of the targets is unknown, so brokers may soon delete old records: {error}"
            )
            return
        for target in targets:
            kept_ms = configs[target.name].number("retention.ms")
            is_deleted = "delete" in (configs[target.name].effective.get("cleanup.policy") or "")
            times = [item.min_timestamp for part in target.backup.partitions for item in part.objects]
            oldest = min((time for time in times if time >= 0), default=now_ms)
            if is_deleted and kept_ms is not None and 0 <= kept_ms < now_ms - oldest:
                self._console.note(
                    f"{target.name} has records older than its retention.ms ({kept_ms}): brokers delete them soon"
                )

    def _fail(self, line: str) -> None:
        self._console.error(line)
        self._has_failed = True
