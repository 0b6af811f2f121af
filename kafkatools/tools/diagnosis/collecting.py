"""Collect the Observations of one subject: a snapshot by `tools/monitor`, then the facts beside it in parallel.

Nothing here judges. A request that fails leaves a line in `unknown`; only a subject that does not exist ends the
command, with CommandError.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import GroupDescription
from kafkatools.core.admin.quotas import EntityQuotas, QuotaComponent, describe_client_quotas
from kafkatools.core.admin.transactions import TransactionDescription, describe_transactions
from kafkatools.core.closing import Closing
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.diagnosis import sources
from kafkatools.tools.diagnosis.commit_times import commit_times
from kafkatools.tools.diagnosis.next_batches import next_batches
from kafkatools.tools.diagnosis.observations import (
    BROKER,
    CLUSTER,
    GROUP,
    PARTITION,
    TOPIC,
    TRANSACTION,
    CommitTimes,
    LogEnds,
    NextBatch,
    Observations,
    OpenProducer,
    Subject,
    TopicPartition,
)
from kafkatools.tools.diagnosis.subjects import Subjects
from kafkatools.tools.monitor.collector import DEFAULT_PATIENCE_MS, ClusterCollector
from kafkatools.tools.monitor.view import NO_BROKER, ClusterView, Problem

TIMEOUT_MS = 5000
"""How long a source waits for a broker or a coordinator."""
LATE_MS = 2500
"""How long to wait after a snapshot for a controller that did not respond, and for voters to fetch from a new one."""
_VOTERS_PAUSE_MS = 250
MAX_BATCHES = 20
"""The number of partitions whose next batch is read: those with the largest lag. Of partitions that the group did not
commit since the first snapshot, as many more."""
_OF_GROUPS = ("groups", "offsets of groups")
"""Problems of a snapshot that hide nothing from a subject without groups."""
_QUOTA_KINDS = (("client-id",), ("user",), ("user", "client-id"))


class Collecting(Closing):
    """Collects one or two Observations of a subject; a context manager. `connect` returns a new AdminClient."""

    def __init__(self, connect: sources.Connect, subject: Subject, principal: str = "") -> None:
        self._connect = connect
        self._subject = subject
        self._principal = principal
        self._stack = ExitStack()
        self._collector: ClusterCollector | None = None
        self._first: Observations | None = None
        self._unknown: list[str] = []
        self._unknown_from_start: list[str] = []  # what no snapshot covers, since the scope is chosen once

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def collect(self) -> Observations:
        """Return the Observations of a snapshot; those of a second call have both snapshots. Raises KafkaError when no
        broker describes the cluster, CommandError for a subject that does not exist."""
        collector = self._collector or self._prepare()
        self._unknown = list(self._unknown_from_start)
        view = self._with_late_voters(self._with_late_quorum(collector.collect()))
        if self._subject.kind == BROKER:
            _ensure_broker(view, int(self._subject.name))
        with_groups = self._subject.kind in (CLUSTER, GROUP)
        self._unknown += [_text(problem) for problem in view.problems if with_groups or problem.what not in _OF_GROUPS]
        facts = _Facts(self._subject, view, self._unknown.append, self._first)
        sources.in_parallel(self._connect, facts.first_turn(bool(self._principal)), self._unknown.append)
        sources.in_parallel(self._connect, facts.second_turn(), self._unknown.append)
        found = Observations(
            subject=self._subject,
            view=view,
            now_ms=view.time_ms,
            descriptions=facts.descriptions,
            ends=facts.ends,
            batches=facts.batches,
            producers=facts.producers,
            transactions=facts.transactions,
            settings=facts.settings,
            rates=facts.rates,
            quotas=facts.quotas,
            pending=facts.pending,
            commits=facts.commits,
            acls=facts.acls,
            principal=self._principal,
        )
        if self._first is not None:
            found = found._replace(
                earlier=self._first.view,
                earlier_descriptions=self._first.descriptions,
                earlier_pending=self._first.pending,
            )
        self._first = self._first or found
        return found._replace(unknown=tuple(dict.fromkeys(self._unknown)))

    def _with_late_quorum(self, view: ClusterView) -> ClusterView:
        """Return the view with a controller that responded too late for the snapshot: slow brokers are no reason to
        report that it is missing."""
        responding = [broker.id for broker in view.brokers if broker.is_responding]
        if view.controller != NO_BROKER or not responding:
            return view
        with self._connect() as admin, suppress(KafkaError):
            quorum = sources.late_quorum(admin, responding, LATE_MS)
            if quorum is not None:
                problems = tuple(problem for problem in view.problems if problem.what != "quorum")
                return view._replace(controller=quorum.leader_id, quorum=quorum, problems=problems)
        return view

    def _with_late_voters(self, view: ClusterView) -> ClusterView:
        """Return the view with a quorum whose voters had time to fetch from a leader that was elected just now. Voters
        that are down never do."""
        quorum = view.quorum
        if quorum is None or not quorum.late_voters or self._subject.kind not in (CLUSTER, BROKER):
            return view
        responding = [broker.id for broker in view.brokers if broker.is_responding]
        with self._connect() as admin, suppress(KafkaError):
            deadline_ms = admin.deadline_ms(LATE_MS)
            while quorum.late_voters and (left_ms := deadline_ms - admin.clock.now_ms()) > 0:
                admin.clock.sleep_ms(_VOTERS_PAUSE_MS)
                quorum = sources.late_quorum(admin, responding, left_ms) or quorum
        return view._replace(controller=quorum.leader_id, quorum=quorum)

    def _prepare(self) -> ClusterCollector:
        """Look the subject up and open the collector. Raises CommandError, KafkaError."""
        admin, aside, apart = (self._stack.enter_context(self._connect()) for _ in range(3))
        scope = Subjects(admin, TIMEOUT_MS, self._unknown_from_start.append).scope(self._subject)
        self._collector = ClusterCollector(admin, aside, scope, DEFAULT_PATIENCE_MS, apart)
        return self._collector


class _Facts:
    """The facts beside one snapshot, as fields of Observations. Each `read_` method is a source; sources run on several
    threads, so each sets fields of its own. `unseen` gets a line for what could not be seen."""

    def __init__(self, subject: Subject, view: ClusterView, unseen: sources.Report, first: Observations | None) -> None:
        self._first = first
        self._subject = subject
        self._view = view
        self._unseen = unseen
        self._types = {group.group_id: group.type for group in view.groups}
        self.descriptions: dict[str, GroupDescription] = {}
        self.ends: dict[TopicPartition, LogEnds] = {}
        self.batches: dict[tuple[str, TopicPartition], NextBatch] = {}
        self.producers: dict[TopicPartition, tuple[OpenProducer, ...]] = {}
        self.transactions: dict[str, TransactionDescription] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.rates: dict[int, dict[str, str]] = {}
        self.quotas: tuple[EntityQuotas, ...] = ()
        self.pending: dict[str, tuple[TopicPartition, ...]] = {}
        self.commits: CommitTimes | None = None
        self.acls: tuple[Acl, ...] | None = None

    def first_turn(self, has_principal: bool) -> dict[str, sources.Source]:
        """Return the sources that need only the snapshot, by what they see."""
        kind = self._subject.kind
        turn: dict[str, sources.Source] = {}
        if self._types:
            turn["members of groups"] = self.read_descriptions
        if kind != BROKER:
            turn["ends of logs"] = self.read_ends
        if self._topics():
            turn["settings of topics"] = self.read_settings
        if any(part.is_under_replicated or part.adding_replicas for part in self._view.partitions):
            turn["throttles of brokers"] = self.read_rates
        if kind == GROUP and self._types:
            turn["pending offsets"] = self.read_pending
            turn["client quotas"] = self.read_quotas
            turn["times of commits"] = self.read_commits
        if kind in (TOPIC, PARTITION) and self._first is not None:
            turn["client quotas"] = self.read_quotas
        if has_principal:
            turn["ACLs"] = self.read_acls
        return turn

    def second_turn(self) -> dict[str, sources.Source]:
        """Return the sources that need facts of the first turn."""
        turn: dict[str, sources.Source] = {}
        if self._held() or self._subject.kind == TRANSACTION:
            turn["open transactions"] = self.read_transactions
        if self._subject.kind == GROUP and self._lagging():
            turn["next records"] = self.read_batches
        return turn

    def _topics(self) -> list[str]:
        """Return the topics whose settings a cause may need: in a whole cluster those that are under-replicated."""
        if self._subject.kind == CLUSTER:
            return sorted({part.topic for part in self._view.partitions if part.is_under_replicated})
        users = [topic.name for topic in self._view.topics if not topic.is_internal]
        return users if self._subject.kind in (GROUP, TOPIC, PARTITION) else []

    def _held(self) -> list[TopicPartition]:
        return [key for key, end in self.ends.items() if end.stable_offset < end.high_watermark]

    def _lagging(self) -> list[tuple[int, TopicPartition, int]]:
        """Return lag, partition and committed offset where the group of the subject can be read further."""
        return [
            (part.lag, (part.topic, part.partition), part.committed)
            for group in self._view.groups
            for part in group.partitions or ()
            if part.lag and _is_readable(self._view, (part.topic, part.partition), part.committed)
        ]

    def read_descriptions(self, admin: AdminClient) -> None:
        """Describe the members of groups."""
        self.descriptions = sources.group_descriptions(admin, self._types, TIMEOUT_MS, self._unseen)

    def read_ends(self, admin: AdminClient) -> None:
        """Request high watermarks and last stable offsets."""
        self.ends = sources.log_ends(admin, self._view, TIMEOUT_MS, self._unseen)

    def read_settings(self, admin: AdminClient) -> None:
        """Describe the settings of topics."""
        self.settings = sources.topic_settings(admin, self._topics(), self._unseen)

    def read_rates(self, admin: AdminClient) -> None:
        """Describe the replication throttles of brokers."""
        responding = [broker.id for broker in self._view.brokers if broker.is_responding]
        self.rates = sources.broker_rates(admin, responding)

    def read_pending(self, admin: AdminClient) -> None:
        """Look for offsets in open transactions."""
        self.pending = sources.pending_offsets(admin, self._types, TIMEOUT_MS)

    def read_quotas(self, admin: AdminClient) -> None:
        """Describe the quotas of users and client ids, defaults included."""
        self.quotas = tuple(
            quota
            for kinds in _QUOTA_KINDS
            for quota in describe_client_quotas(admin, [QuotaComponent(kind) for kind in kinds])
        )

    def read_commits(self, admin: AdminClient) -> None:
        """Read the times of the last commits. They are only evidence: a principal that may not read them loses no
        verdict."""
        with suppress(CommandError, KafkaError):
            self.commits = commit_times(admin, self._subject.name)

    def read_acls(self, admin: AdminClient) -> None:
        """Describe all ACLs."""
        self.acls = sources.acls_of(admin)

    def read_transactions(self, admin: AdminClient) -> None:
        """Describe the producers that hold last stable offsets, their transactions, and the one of the subject."""
        held = self._held()
        if held:
            self.producers, self.transactions = sources.open_producers(admin, held, self._unseen)
        if self._subject.kind == TRANSACTION:
            own = describe_transactions(admin, [self._subject.name])[self._subject.name]
            if isinstance(own, KafkaError):
                raise own
            self.transactions = {**self.transactions, self._subject.name: own}

    def read_batches(self, admin: AdminClient) -> None:
        """Fetch the batches at the committed offsets of the group."""
        lagging = sorted(self._lagging(), reverse=True)
        before = {} if self._first is None else self._first.offsets_of(self._subject.name)
        still = [item for item in lagging if before.get(item[1]) == item[2]]
        largest = dict.fromkeys([*lagging[:MAX_BATCHES], *still[:MAX_BATCHES]])
        offsets = {key: committed for _, key, committed in largest}
        leaders = {key: self._view.by_partition[key].leader for key in offsets}
        for key, batch in next_batches(admin, offsets, leaders, TIMEOUT_MS).items():
            if isinstance(batch, NextBatch):
                self.batches[self._subject.name, key] = batch
            elif batch.name != "OFFSET_OUT_OF_RANGE":
                self._unseen(f"next record of {key[0]}-{key[1]}: {batch}")


def _text(problem: Problem) -> str:
    """Return a problem of a snapshot in one line. Errors of brokers that do not respond say so themselves."""
    return f"broker {problem.broker}: {problem.error}" if problem.what == "no response" else problem.message


def _ensure_broker(view: ClusterView, broker: int) -> None:
    """Raise CommandError unless the broker is registered or has replicas."""
    registered = [found.id for found in view.brokers]
    if broker not in registered and not any(broker in part.replicas for part in view.partitions):
        text = ", ".join(map(str, registered))
        raise CommandError(f"Broker '{broker}' does not exist: the brokers are {text}", kind="BROKER_NOT_FOUND")


def _is_readable(view: ClusterView, key: TopicPartition, committed: int) -> bool:
    """Return whether the partition has a leader and still has the committed offset."""
    part = view.by_partition.get(key)
    return part is not None and not part.is_offline and committed >= (part.start_offset or 0)
