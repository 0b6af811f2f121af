"""Collect one ClusterView after the other, with few requests that every Kafka cluster supports.

A snapshot has two turns of parallel requests. First any broker describes nodes and topics, and every broker its groups
and log directories. Then leaders report log end offsets, and the coordinators (the brokers that listed groups) describe
them. Quorum and reassignments are requested in between, over separate connections. Topics beyond a page of 2,000
partitions and settings of new topics need further requests.

A broker that does not respond in time delays one snapshot. Later snapshots ask it only when its connection is up and it
owes no response; each view names its missing data as problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.configs import TOPIC
from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.offsets import EARLIEST
from kafkatools.core.admin.quorum import MetadataQuorum
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from kafkatools.core.net.requests import Answer, Question
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.tools.monitor.changes import events_between, with_rates
from kafkatools.tools.monitor.end_history import EndHistory
from kafkatools.tools.monitor.groups import GroupQuestions, ListedGroup
from kafkatools.tools.monitor.look import (
    UNANSWERED,
    Look,
    Moves,
    Nodes,
    PartitionFacts,
    Scope,
    broker_questions,
    by_leader,
    first_questions,
    offsets_question,
    replica_sizes,
)
from kafkatools.tools.monitor.unknowns import Coordinators, with_reason
from kafkatools.tools.monitor.view import NOBODY, NOT_TOLD, BrokerView, ClusterView, GroupView, Problem, TopicView

DEFAULT_PATIENCE_MS = 2000
_MIN_ISR = "min.insync.replicas"
_SETTINGS_AGE_MS = 30_000
_SLOW_LOOKS = 2

__all__ = ["ClusterCollector", "Scope"]


class ClusterCollector:
    """Collects one `ClusterView` per snapshot; for one thread. `aside`: a second client, for requests to the
    controller. `apart`: a third client, for group offsets, which coordinators may return late. A broker answers a
    connection's requests in order. So a request to a missing controller or a late coordinator would delay everything
    else on the same connection."""

    def __init__(
        self,
        admin: AdminClient,
        aside: AdminClient,
        scope: Scope | None = None,
        patience_ms: int = DEFAULT_PATIENCE_MS,
        apart: AdminClient | None = None,
    ) -> None:
        self._apart = apart or admin
        self._coordinators = Coordinators()
        self._admin = admin
        self._aside = aside
        self._scope = scope or Scope()
        self._patience_ms = patience_ms
        self._last: ClusterView | None = None
        self._silent: dict[int, str] = {}  # brokers that did not respond, with the error
        self._settings = _TopicSettings()
        self._history = EndHistory()
        self._unheard = 0  # looks since the controller answered

    def collect(self) -> ClusterView:
        """Return one snapshot's view, with rates and events. Raises KafkaError when no broker describes the cluster."""
        started_ms = self._admin.clock.now_ms()
        self._admin.refresh_cluster()
        look = Look(self._admin, self._patience_ms)
        view = self._second_turn(look, self._first_turn(look))
        view = view._replace(took_ms=self._admin.clock.now_ms() - started_ms)
        if self._last is not None:
            view = with_rates(self._last, view)
            view = view._replace(events=tuple(events_between(self._last, view)))
        self._last = view
        return view

    # -- who is asked --

    def _alive(self) -> list[int]:
        if self._last is None:
            return sorted(self._admin.client.metadata.cluster.nodes)
        return [broker.id for broker in self._last.brokers if broker.is_alive]

    def _may_ask(self, node: int, now_ms: int) -> bool:
        """Return whether to send requests to a node: a silent one only when connected and idle. Starts to reconnect to
        a silent node that is not connected."""
        if node not in self._silent:
            return True
        client = self._admin.client
        return client.known_node(node) is not None and client.ready(node, now_ms) and not client.in_flight_count(node)

    def _note_silent(self, asked: Iterable[int], answers: Mapping[str, Answer], nodes: Nodes) -> None:
        for node in asked:
            errors = [answers[f"{what} {node}"].error for what in ("groups", "log directories")]
            if all(isinstance(error, UNANSWERED) for error in errors):
                self._silent[node] = str(errors[0])
            else:
                self._silent.pop(node, None)
        alive = nodes.ids - nodes.fenced
        self._silent = {
            node: str(self._admin.client.connection_error(node) or error)
            for node, error in self._silent.items()
            if node in alive
        }

    def _note_silent_later(self, look: Look, answered: Iterable[tuple[Question, Answer]]) -> None:
        """Record brokers that responded in the first turn but not in the second."""
        errors: dict[int, list[KafkaError | None]] = {}
        for question, answer in answered:
            if question.node is not None:
                errors.setdefault(question.node, []).append(answer.error)
        for node, found in errors.items():
            if node not in self._silent and all(isinstance(error, UNANSWERED) for error in found):
                self._silent[node] = str(found[0])
                look.problems.append(Problem(node, "no answer", str(found[0])))

    def _note_partly_silent(self, look: Look, asked: Iterable[int], answers: Mapping[str, Answer]) -> None:
        """Add a problem for each broker that answered only one of its two requests in time."""
        for node in asked:
            for what in ("groups", "log directories"):
                error = answers[f"{what} {node}"].error
                if node not in self._silent and isinstance(error, UNANSWERED):
                    look.problems.append(Problem(node, what, str(error)))

    def _note_late(self, look: Look, answered: Iterable[tuple[Question, Answer | None]]) -> None:
        """Add a problem for each responding coordinator that did not return group offsets in time."""
        for question, answer in answered:
            node = question.node
            if answer is None or node is None or node in self._silent:
                continue
            if isinstance(answer.error, UNANSWERED):
                look.problems.append(Problem(node, "offsets of groups", str(answer.error)))

    # -- the two turns --

    def _first_turn(self, look: Look) -> _Found:
        now_ms = self._admin.clock.now_ms()
        asked = [node for node in self._alive() if self._may_ask(node, now_ms)]
        common, per_broker = first_questions(self._scope), broker_questions(asked)
        answers = dict(zip([*common, *per_broker], look.ask([*common.values(), *per_broker.values()]), strict=True))
        look.ask_again(answers, common)
        nodes = look.nodes(answers["nodes"], answers["cluster"], (self._admin, self._aside, self._apart))
        topics = look.topics(answers["topics"], self._scope)
        self._note_silent(asked, answers, nodes)
        answers |= look.ask_controller(self._aside, nodes.ids - nodes.fenced - self._silent.keys())
        for node, error in sorted(self._silent.items()):
            look.problems.append(Problem(node, "no answer", error))
        listed = look.listed(asked, answers, self._scope.takes_group)
        self._note_partly_silent(look, asked, answers)
        look.say_whose_groups_are_missing()
        alive = nodes.ids - nodes.fenced
        responding = {node for node in asked if answers[f"groups {node}"].error is None}
        unheard = {
            node: self._silent.get(node) or str(answers[f"groups {node}"].error)
            if node in asked
            else "it was not asked"
            for node in alive - responding
        }
        names = {group.group_id for group in listed}
        if self._scope.group_names and names.issuperset(self._scope.group_names):
            unheard = {}  # all requested groups are listed, so the other brokers do not matter
        self._coordinators.see(look.offsets_topic, alive, unheard, self._admin.clock.now_ms())
        log_dirs = look.log_dirs(asked, answers)
        quorum = look.quorum(answers["quorum"])
        return _Found(nodes, topics, listed, log_dirs, quorum, look.moves(answers["moves"]))

    def _second_turn(self, look: Look, found: _Found) -> ClusterView:
        alive = found.nodes.ids - found.nodes.fenced - self._silent.keys()
        leaders = by_leader(found.topics, alive)
        ends = [offsets_question(leader, parts) for leader, parts in leaders.items()]
        starts = [offsets_question(leader, parts, EARLIEST) for leader, parts in leaders.items()]
        logs = [*ends, *starts] if self._scope.with_starts else ends
        groups = GroupQuestions([group for group in found.listed if group.coordinator in alive], look.complain)
        about_groups = groups.questions()
        group_answers = self._ask_apart(look, groups, about_groups)
        left = [place for place, answer in enumerate(group_answers) if answer is None]
        settings = self._settings.questions(found.topics, self._admin.clock.now_ms())
        questions = [*logs, *(about_groups[place] for place in left), *settings]
        answers = look.ask(questions)
        clock_ms = self._admin.clock.now_ms()
        self._note_silent_later(look, zip(questions, answers, strict=True))
        self._note_late(look, zip(about_groups, group_answers, strict=True))
        offsets = look.offsets(leaders, answers[: len(ends)])
        begins = look.offsets(leaders, answers[len(ends) : len(logs)]) if self._scope.with_starts else {}
        for place, answer in zip(left, answers[len(logs) :], strict=False):
            group_answers[place] = answer
        groups.take([answer for answer in group_answers if answer is not None], self._admin, self._patience_ms)
        if settings:
            self._settings.take(look, answers[-1])
        self._history.add(offsets, clock_ms)
        self._history.forget_others((topic.name, part.partition) for topic in found.topics for part in topic.partitions)
        facts = PartitionFacts(offsets, begins, replica_sizes(found.log_dirs), found.moves)
        answering = found.nodes.ids - found.nodes.fenced - self._silent.keys()
        view = ClusterView(
            time_ms=self._admin.clock.wall_ms(),
            clock_ms=clock_ms,
            took_ms=0,
            cluster_id=found.nodes.cluster_id,
            controller=self._controller(found),
            brokers=tuple(self._brokers(found)),
            topics=tuple(self._topic(topic, facts) for topic in found.topics),
            quorum=None if isinstance(found.quorum, KafkaError) else found.quorum,
            groups=(),
            problems=tuple(look.problems),
            unlisted=self._coordinators.reasons,
        )
        kept = self._coordinators.kept(self._last, found.listed, answering)
        listed = groups.views(offsets, self._scope.takes_topic)
        views = self._coordinators.complete([*map(self._with_lag_time, listed), *kept])
        views = [with_reason(group, view.by_partition, answering) for group in views]
        return view._replace(groups=tuple(sorted(views, key=lambda group: group.group_id)))

    def _ask_apart(self, look: Look, groups: GroupQuestions, questions: Sequence[Question]) -> list[Answer | None]:
        """Send the requests that may be late over `apart`; the answers of the other requests are None."""
        chosen = [place for place, waits in enumerate(groups.waiting()) if waits]
        answers: list[Answer | None] = [None] * len(questions)
        for place, answer in zip(
            chosen, look.ask_coordinators(self._apart, [questions[n] for n in chosen]), strict=True
        ):
            answers[place] = answer
        return answers

    def _controller(self, found: _Found) -> int:
        """Return the id of the active controller: the quorum's leader, or without a quorum (ZooKeeper) the one in
        metadata.

        While the quorum request is unanswered, the last known controller stays for two snapshots, then NOBODY. NOT_TOLD
        if the request was refused.
        """
        if not isinstance(found.quorum, KafkaError):
            self._unheard = 0
            return found.quorum.leader_id
        if isinstance(found.quorum, UnsupportedVersion):
            return found.nodes.controller
        if not isinstance(found.quorum, UNANSWERED):
            return NOT_TOLD
        self._unheard += 1
        return NOBODY if self._last is None or self._unheard > _SLOW_LOOKS else self._last.controller

    def _brokers(self, found: _Found) -> Iterable[BrokerView]:
        for node in found.nodes.nodes:
            is_fenced = node.id in found.nodes.fenced
            is_answering = not is_fenced and node.id not in self._silent
            log_dirs = found.log_dirs.get(node.id)
            yield BrokerView(node.id, node.host, node.port, node.rack, is_fenced, is_answering, log_dirs)

    def _with_lag_time(self, group: GroupView) -> GroupView:
        if not group.is_lag_known:  # a partition with an unknown end may have the largest lag
            return group
        now_ms = self._admin.clock.now_ms()
        ages = [
            0 if part.lag == 0 else self._history.age_ms((part.topic, part.partition), part.committed, now_ms)
            for part in group.partitions or ()
        ]
        known_ages = [age for age in ages if age is not None]
        return group._replace(lag_ms=max(known_ages)) if known_ages and len(known_ages) == len(ages) else group

    def _topic(self, topic: TopicDescription, facts: PartitionFacts) -> TopicView:
        parts = facts.views(topic, self._settings.min_isr.get(topic.name))
        return TopicView(topic.name, topic.topic_id, topic.is_internal, parts)


class _TopicSettings:
    """min.insync.replicas of topics, requested for new topics and for all topics every 30 seconds."""

    def __init__(self) -> None:
        self.min_isr: dict[str, int | None] = {}
        self._asked_ms: int | None = None

    def questions(self, topics: Iterable[TopicDescription], now_ms: int) -> list[Question]:
        """Return the DescribeConfigs request that is due, if any."""
        if self._asked_ms is None or now_ms - self._asked_ms > _SETTINGS_AGE_MS:
            self._asked_ms = now_ms
            wanted = [topic.name for topic in topics]
        else:
            wanted = [topic.name for topic in topics if topic.name not in self.min_isr]
        if not wanted:
            return []
        keys = (_MIN_ISR,)
        resources = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys} for name in wanted]
        fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
        return [Question(None, ApiKey.DESCRIBE_CONFIGS, fields)]

    def take(self, look: Look, answer: Answer) -> None:
        """Store the settings of a DescribeConfigs response. Errors become problems, except for topics that do not
        exist."""
        if answer.error is not None:
            look.complain(NOBODY, _MIN_ISR, answer.error)
            return
        for result in answer.entity.results:
            error = error_in(result)
            if error is not None and not isinstance(error, UnknownTopicOrPartition):
                look.complain(NOBODY, f"{_MIN_ISR} of {result.resource_name}", error)
            value = next((entry.value for entry in result.configs if entry.name == _MIN_ISR), None)
            self.min_isr[result.resource_name] = None if value is None else int(value)


class _Found(NamedTuple):
    """The results of a snapshot's first turn."""

    nodes: Nodes
    topics: list[TopicDescription]
    listed: list[ListedGroup]
    log_dirs: dict[int, tuple[LogDir, ...]]
    quorum: MetadataQuorum | KafkaError
    moves: Moves
