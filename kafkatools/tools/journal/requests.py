"""The table of the APIs that change a cluster: the changes of a request, and their outcomes in its response.

The earlier value of a change is read before the request where the change can be undone. Where it cannot be read, the
change has a reason instead: the command itself must not fail for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.acls import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    Acl,
    AclFilter,
    describe_acls,
)
from kafkatools.core.admin.client import AdminClient, error_in, first_error
from kafkatools.core.admin.configs import DELETE, SET
from kafkatools.core.admin.scram import MECHANISMS
from kafkatools.core.admin.topics import topic_id_text
from kafkatools.core.errors import ElectionNotNeeded, KafkaError, RequestTimedOut
from kafkatools.core.json_values import JsonValue
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.tools.configs.changes import Setting
from kafkatools.tools.configs.entities import CLIENTS, IPS, USERS, Entities, row_of
from kafkatools.tools.journal import values
from kafkatools.tools.journal.entries import (
    ACL,
    CONFIG,
    CREDENTIAL,
    DONE,
    FAILED,
    GROUP,
    OFFSET,
    REPLICAS,
    SHARE_OFFSET,
    TOPIC,
    UNKNOWN,
    Change,
    Noted,
    Outcome,
)

Changes = list[Change]
Errors = Mapping[tuple[object, ...], KafkaError | None]
_ALL_PARTITIONS: Mapping[str, JsonValue] = {"topic": "*"}


class Api(NamedTuple):
    """An API that changes a cluster. `changes(reading, requests)` returns the changes of each request,
    `outcomes(changes, response)` their outcomes in its response, and `found(changes, response)` further changes with
    outcomes, which only the response names."""

    changes: Callable[[Reading, Sequence[Fields]], list[Changes]]
    outcomes: Callable[[Changes, Entity], list[Outcome]]
    found: Callable[[Changes, Entity], list[Noted]] = lambda changes, response: []


class Reading(NamedTuple):
    """The client that reads earlier values. `of_share_groups`: the command changes share groups."""

    admin: AdminClient
    of_share_groups: bool = False


def outcome_of(error: KafkaError | None, topic_id: str | None = None) -> Outcome:
    """Return the outcome that a broker's error code reports. After REQUEST_TIMED_OUT the change may have been made."""
    if error is None:
        return Outcome(DONE, None, topic_id)
    return Outcome(UNKNOWN if isinstance(error, RequestTimedOut) else FAILED, str(error))


def _unread(error: Exception) -> str:
    return f"its earlier value could not be read: {error}"


def _each(changes: Callable[[Reading, Fields], Changes]) -> Callable[[Reading, Sequence[Fields]], list[Changes]]:
    return lambda reading, requests: [changes(reading, fields) for fields in requests]


def _by_target(errors: Callable[[Entity], Errors], *keys: str) -> Callable[[Changes, Entity], list[Outcome]]:
    """Outcomes by the keys of targets in a response's errors. A target without an error succeeded."""

    def outcomes(changes: Changes, response: Entity) -> list[Outcome]:
        found = errors(response)
        return [outcome_of(found.get(tuple(change.target.get(key) for key in keys))) for change in changes]

    return outcomes


def _unless_refused(errors: Callable[[Entity], Errors], *keys: str) -> Callable[[Changes, Entity], list[Outcome]]:
    """As `_by_target`, but an error of the whole response is the error of every change."""

    def outcomes(changes: Changes, response: Entity) -> list[Outcome]:
        if error_in(response) is not None:
            return _of_response(changes, response)
        return _by_target(errors, *keys)(changes, response)

    return outcomes


def _of_response(changes: Changes, response: Entity) -> list[Outcome]:
    return [outcome_of(error_in(response)) for _ in changes]


# -- configs and quotas --


def _config_changes(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    altered = [[(_entity(resource), resource["configs"]) for resource in fields["resources"]] for fields in requests]
    requested = {entities: [row["name"] for row in rows] for request in altered for entities, rows in request}
    return [
        [
            _setting_change(
                entities,
                row["name"],
                None if row["config_operation"] == DELETE else row["value"],
                present.get(entities),
                "" if row["config_operation"] in (SET, DELETE) else "it changed a part of a list",
            )
            for entities, rows in request
            for row in rows
        ]
        for present in [values.settings(reading.admin, requested)]
        for request in altered
    ]


def _entity(resource: Fields) -> Entities:
    return values.entities_of((int(resource["resource_type"]), resource["resource_name"]))


def _setting_change(
    entities: Entities,
    name: str,
    after: JsonValue,
    present: Mapping[str, Setting] | KafkaError | None,
    reason: str = "",
) -> Change:
    if present is None or isinstance(present, KafkaError):
        reason = _unread(present or KafkaError("no broker reported it"))
        return Change(CONFIG, row_of(entities), name, None, None, reason, True)
    setting = present[name]
    if setting.is_hidden:
        reason = "the value is secret, and brokers do not reveal it"
        return Change(CONFIG, row_of(entities), name, None, None, reason, True)
    return Change(CONFIG, row_of(entities), name, setting.value if setting.is_set else None, after, reason)


def _config_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    errors = {
        repr(row_of(values.entities_of((int(result.resource_type), result.resource_name)))): error_in(result)
        for result in response.responses
    }
    return [outcome_of(errors.get(repr(dict(change.target)))) for change in changes]


def _quota_changes(reading: Reading, fields: Fields) -> Changes:
    changes = []
    for entry in fields["entries"]:
        kinds = {"user": USERS, "client-id": CLIENTS, "ip": IPS}
        parts = [(kinds[part["entity_type"]], part["entity_name"] or "") for part in entry["entity"]]
        entities = Entities(tuple(kind for kind, _ in parts), tuple(name for _, name in parts))
        present = values.settings(reading.admin, {entities: [row["key"] for row in entry["ops"]]})[entities]
        for row in entry["ops"]:
            changes.append(_setting_change(entities, row["key"], None if row["remove"] else row["value"], present))
    return changes


def _quota_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    errors = {
        repr({part.entity_type: part.entity_name for part in entry.entity}): error_in(entry)
        for entry in response.entries
    }
    return [outcome_of(errors.get(repr(dict(change.target)))) for change in changes]


# -- ACLs --


def _added_acls(reading: Reading, fields: Fields) -> Changes:
    existing: set[Acl] = set()
    added = [_acl(row, row["resource_name"], row["principal"], row["host"]) for row in fields["creations"]]
    reason = ""
    try:
        for kind, name, pattern in dict.fromkeys(
            (acl.resource_type, acl.resource_name, acl.pattern_type) for acl in added
        ):
            existing.update(describe_acls(reading.admin, AclFilter(kind, name, pattern_type=pattern)))
    except KafkaError as error:
        reason = _unread(error)
    return [Change(ACL, acl._asdict(), "", acl in existing, True, reason) for acl in added]


def _acl(row: Fields, name: str, principal: str, host: str) -> Acl:
    pattern = row["resource_pattern_type"] if "resource_pattern_type" in row else row["pattern_type_filter"]
    kind = row["resource_type"] if "resource_type" in row else row["resource_type_filter"]
    return Acl(
        RESOURCE_TYPES[kind], name, principal, OPERATIONS[row["operation"]], PERMISSIONS[row["permission_type"]], host,
        PATTERN_TYPES[pattern],
    )  # fmt: skip


def _removed_acls(reading: Reading, fields: Fields) -> Changes:
    changes = []
    for row in fields["filters"]:
        name, principal, host = row["resource_name_filter"], row["principal_filter"], row["host_filter"]
        pattern = PATTERN_TYPES[row["pattern_type_filter"]]
        kind, operation = RESOURCE_TYPES[row["resource_type_filter"]], OPERATIONS[row["operation"]]
        permission = PERMISSIONS[row["permission_type"]]
        words = (kind, pattern, operation, permission)
        if None not in (name, principal, host) and not {"ANY", "MATCH"} & set(words):
            acls = [Acl(kind, name, principal, operation, permission, host, pattern)]
        else:
            try:
                acls = describe_acls(
                    reading.admin, AclFilter(kind, name, principal, operation, permission, host, pattern)
                )
            except KafkaError as error:
                changes.append(Change(ACL, {"filter": " ".join(words)}, "", True, False, _unread(error)))
                continue
        changes += [Change(ACL, acl._asdict(), "", True, False) for acl in acls]
    return changes


def _added_acl_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    return [outcome_of(error_in(result)) for _, result in zip(changes, response.results, strict=False)]


def _removed_acl_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    removed: dict[Acl, KafkaError | None] = {}
    refused = [error for error in map(error_in, response.filter_results) if error is not None]
    for result in response.filter_results:
        for match in result.matching_acls:
            words = (RESOURCE_TYPES[match.resource_type], match.resource_name, match.principal)
            rights = (OPERATIONS[match.operation], PERMISSIONS[match.permission_type], match.host)
            removed[Acl(*words, *rights, PATTERN_TYPES[match.pattern_type])] = error_in(match)
    outcomes = []
    for change in changes:
        acl = Acl(**change.target) if "filter" not in change.target else None  # type: ignore[arg-type]
        if acl in removed or acl is None:
            outcomes.append(outcome_of(removed.get(acl) if acl else next(iter(refused), None)))
        else:
            outcomes.append(Outcome(FAILED, str(refused[0]) if refused else "the ACL did not exist"))
    return outcomes


# -- topics --


def _created_topics(reading: Reading, fields: Fields) -> Changes:
    return [Change(TOPIC, {"topic": topic["name"]}, "", False, True) for topic in fields["topics"]]


def _created_topic_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    results = {topic.name: topic for topic in response.topics}
    outcomes = []
    for change in changes:
        result = results.get(change.target["topic"])
        error = None if result is None else error_in(result)
        outcomes.append(outcome_of(error, None if result is None else topic_id_text(getattr(result, "topic_id", None))))
    return outcomes


def _deleted_topics(reading: Reading, fields: Fields) -> Changes:
    topics = fields["topics"] if "topics" in fields else [{"name": name} for name in fields["topic_names"]]
    return [Change(TOPIC, {"topic": topic["name"]}, "", True, False, "its records are gone") for topic in topics]


def _more_partitions(reading: Reading, fields: Fields) -> Changes:
    requested = {topic["name"]: topic["count"] for topic in fields["topics"]}
    try:
        before = values.partition_counts(reading.admin, list(requested))
    except KafkaError:
        before = {}
    reason = "partitions cannot be removed"
    return [
        Change("partitions", {"topic": name}, "", before.get(name), count, reason) for name, count in requested.items()
    ]


def _topic_errors(parts: str, name: str = "name") -> Callable[[Entity], Errors]:
    return lambda response: {(getattr(result, name),): error_in(result) for result in getattr(response, parts)}


def _deleted_records(reading: Reading, fields: Fields) -> Changes:
    reason = "the deleted records are gone"
    return [
        Change("log-start", {"topic": name, "partition": part["partition_index"]}, "", None, part["offset"], reason)
        for name, part in _parts(fields["topics"])
    ]


def _parts(topics: Iterable[Fields], name: str = "name") -> list[tuple[str, Fields]]:
    return [(topic[name], part) for topic in topics for part in topic["partitions"]]


def _partition_errors(parts: str, name: str = "name", index: str = "partition_index") -> Callable[[Entity], Errors]:
    return lambda response: {
        (getattr(topic, name), getattr(part, index)): error_in(part)
        for topic in getattr(response, parts)
        for part in topic.partitions
    }


# -- replicas --


def _moved_replicas(reading: Reading, fields: Fields) -> Changes:
    requested = {(name, part["partition_index"]): part["replicas"] for name, part in _parts(fields["topics"])}
    before: dict[tuple[str, int], list[int]] = {}
    without: dict[tuple[str, int], list[int]] = {}
    reason = ""
    try:
        before = values.replicas(reading.admin, list(requested))
        if None in requested.values():
            without = values.replicas_without_moves(reading.admin, list(requested))
    except KafkaError as error:
        reason = _unread(error)
    changes = []
    for key, replicas in requested.items():
        after = without.get(key) if replicas is None else list(replicas)
        unknown = reason or ("" if key in before and after is not None else "its replicas were unknown")
        changes.append(Change(REPLICAS, {"topic": key[0], "partition": key[1]}, "", before.get(key), after, unknown))
    return changes


def _moved_directories(reading: Reading, fields: Fields) -> Changes:
    reason = "kt reassign-partitions --execute moves replicas between directories"
    return [
        Change("log-directory", {"topic": topic["name"], "partition": number}, "", None, row["path"], reason)
        for row in fields["dirs"]
        for topic in row["topics"]
        for number in topic["partitions"]
    ]


def _elections(reading: Reading, fields: Fields) -> Changes:
    reason = "another election chooses the leader"
    kind = ("preferred", "unclean")[int(fields.get("election_type", 0))]
    if fields["topic_partitions"] is None:
        return [Change("leader", _ALL_PARTITIONS, "", None, kind, reason)]
    return [
        Change("leader", {"topic": topic["topic"], "partition": number}, "", None, kind, reason)
        for topic in fields["topic_partitions"]
        for number in topic["partitions"]
    ]


def _election_errors(response: Entity) -> Errors:
    """The errors of elections; one that is not needed succeeded."""
    errors: dict[tuple[object, ...], KafkaError | None] = {}
    for topic in response.replica_election_results:
        for part in topic.partition_result:
            error = error_in(part)
            errors[topic.topic, part.partition_id] = None if isinstance(error, ElectionNotNeeded) else error
    return errors


def _election_outcomes(changes: Changes, response: Entity) -> list[Outcome]:
    """The outcomes by partition. An election on all partitions failed if that of every partition did."""
    states = {noted.outcome.state for noted in _elected(changes, response)}
    if states == {FAILED}:
        return [Outcome(FAILED, "no election succeeded")]
    return _unless_refused(_election_errors, "topic", "partition")(changes, response)


def _elected(changes: Changes, response: Entity) -> list[Noted]:
    """The elections of a request for all partitions, without those that are not needed."""
    if error_in(response) is not None:
        return []
    return [
        Noted(change._replace(target={"topic": topic.topic, "partition": part.partition_id}), outcome_of(error))
        for change in changes
        if change.target == _ALL_PARTITIONS
        for topic in response.replica_election_results
        for part in topic.partition_result
        if not isinstance(error := error_in(part), ElectionNotNeeded)
    ]


# -- groups --


def _committed(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    requested = [
        {(name, part["partition_index"]): part["committed_offset"] for name, part in _parts(fields["topics"])}
        for fields in requests
    ]
    return _offset_changes(reading, OFFSET, [fields["group_id"] for fields in requests], requested)


def _altered_share_offsets(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    requested = [
        {
            (name, part["partition_index"]): None if part["start_offset"] < 0 else part["start_offset"]
            for name, part in _parts(fields["topics"], "topic_name")
        }
        for fields in requests
    ]
    return _offset_changes(reading, SHARE_OFFSET, [fields["group_id"] for fields in requests], requested)


def _deleted_offsets(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    requested = [
        {(name, part["partition_index"]): None for name, part in _parts(fields["topics"])} for fields in requests
    ]
    return _offset_changes(reading, OFFSET, [fields["group_id"] for fields in requests], requested)


def _deleted_share_offsets(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    topics = [{topic["topic_name"] for topic in fields["topics"]} for fields in requests]
    groups = [fields["group_id"] for fields in requests]
    return _offset_changes(reading, SHARE_OFFSET, groups, [None for _ in requests], topics)


def _deleted_groups(reading: Reading, requests: Sequence[Fields]) -> list[Changes]:
    kind = SHARE_OFFSET if reading.of_share_groups else OFFSET
    groups = [group for fields in requests for group in fields["groups_names"]]
    found = dict(zip(groups, _offset_changes(reading, kind, groups, [None for _ in groups]), strict=True))
    for group in groups:
        reason = "without offsets nothing is left to restore"
        found[group] = found[group] or [Change(GROUP, {"group": group}, "", True, False, reason)]
    return [[change for group in fields["groups_names"] for change in found[group]] for fields in requests]


def _offset_changes(
    reading: Reading,
    kind: str,
    groups: Sequence[str],
    requested: Sequence[Mapping[tuple[str, int], JsonValue] | None],
    topics: Sequence[set[str]] | None = None,
) -> list[Changes]:
    """The changes of each group's offsets. None instead of offsets: all are deleted, or those in `topics`."""
    try:
        present = values.offsets(reading.admin, dict.fromkeys(groups), of_share_groups=kind == SHARE_OFFSET)
    except KafkaError as error:
        present = dict.fromkeys(groups, error)
    found = []
    for index, (group, after) in enumerate(zip(groups, requested, strict=True)):
        before = present.get(group, KafkaError("no broker reported it"))
        reason = _unread(before) if isinstance(before, KafkaError) else ""
        known = {} if isinstance(before, KafkaError) else before
        if after is None and reason:
            found.append(_unread_offsets(group, None if topics is None else topics[index], reason))
            continue
        if after is None:
            after = {key: None for key in known if topics is None or key[0] in topics[index]}
        found.append(
            [
                Change(kind, {"group": group, "topic": key[0], "partition": key[1]}, "", known.get(key), offset, reason)
                for key, offset in after.items()
            ]
        )
    return found


def _unread_offsets(group: str, topics: set[str] | None, reason: str) -> Changes:
    """The deletion of offsets that could not be read: those of the group, or of its topics."""
    if topics is None:
        return [Change(GROUP, {"group": group}, "", True, False, reason)]
    return [Change("start-offsets", {"group": group, "topic": topic}, "", None, None, reason) for topic in topics]


# -- the cluster --


def _credential_changes(reading: Reading, fields: Fields) -> Changes:
    names = {number: name for name, (number, _) in MECHANISMS.items()}
    set_ones = [(row["name"], names[row["mechanism"]]) for row in fields["upsertions"]]
    deleted = [(row["name"], names[row["mechanism"]]) for row in fields["deletions"]]
    reason = "brokers do not reveal passwords"
    changes = [
        Change(CREDENTIAL, {"user": user, "mechanism": name}, "", True, False, reason, True) for user, name in deleted
    ]
    try:
        existing = values.credentials(reading.admin, list({user for user, _ in set_ones})) if set_ones else set()
        unread = ""
    except KafkaError as error:
        existing, unread = set(), _unread(error)
    for user, name in set_ones:
        is_new = (user, name) not in existing
        target = {"user": user, "mechanism": name}
        changes.append(Change(CREDENTIAL, target, "", not is_new, True, unread or ("" if is_new else reason), True))
    return changes


def _credential_errors(response: Entity) -> Errors:
    return {(result.user,): error_in(result) for result in response.results}


def _feature_changes(reading: Reading, fields: Fields) -> Changes:
    reason = "use kt features upgrade or downgrade with the earlier level"
    return [
        Change("feature", {"feature": row["feature"]}, "", None, row["max_version_level"], reason)
        for row in fields["feature_updates"]
    ]


def _feature_errors(response: Entity) -> Errors:
    """The errors of single features, which brokers before Apache Kafka 4.0 report."""
    return {(result.feature,): error_in(result) for result in getattr(response, "results", ())}


def _single(kind: str, reason: str, **keys: str) -> Callable[[Reading, Sequence[Fields]], list[Changes]]:
    """The change of a request that changes one thing and cannot be undone. `keys`: the target's keys with the names of
    their fields."""

    def changes(reading: Reading, fields: Fields) -> Changes:
        return [Change(kind, {key: fields.get(field) for key, field in keys.items()}, "", None, None, reason)]

    return _each(changes)


def _aborted(reading: Reading, fields: Fields) -> Changes:
    reason = "an ended transaction cannot be continued"
    return [
        Change("transaction", {"producer_id": marker["producer_id"], "topic": topic["name"]}, "", None, None, reason)
        for marker in fields["markers"]
        for topic in marker["topics"]
    ]


def _marker_errors(response: Entity) -> Errors:
    errors: dict[tuple[object, ...], KafkaError | None] = {}
    for marker in response.markers:
        for topic in marker.topics:
            key = (marker.producer_id, topic.name)
            errors[key] = errors.get(key) or first_error(topic.partitions)
    return errors


_ENDED = "an ended transaction cannot be continued"
_TOKEN = "use kt delegation-tokens"
_DIRECTORY_ERRORS = _partition_errors("results", "topic_name")

APIS: Mapping[int, Api] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(_config_changes, _config_outcomes),
    ApiKey.ALTER_CLIENT_QUOTAS: Api(_each(_quota_changes), _quota_outcomes),
    ApiKey.CREATE_ACLS: Api(_each(_added_acls), _added_acl_outcomes),
    ApiKey.DELETE_ACLS: Api(_each(_removed_acls), _removed_acl_outcomes),
    ApiKey.CREATE_TOPICS: Api(_each(_created_topics), _created_topic_outcomes),
    ApiKey.DELETE_TOPICS: Api(_each(_deleted_topics), _by_target(_topic_errors("responses"), "topic")),
    ApiKey.CREATE_PARTITIONS: Api(_each(_more_partitions), _by_target(_topic_errors("results"), "topic")),
    ApiKey.DELETE_RECORDS: Api(_each(_deleted_records), _by_target(_partition_errors("topics"), "topic", "partition")),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Api(
        _each(_moved_replicas), _unless_refused(_partition_errors("responses"), "topic", "partition")
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(_each(_moved_directories), _by_target(_DIRECTORY_ERRORS, "topic", "partition")),
    ApiKey.ELECT_LEADERS: Api(_each(_elections), _election_outcomes, _elected),
    ApiKey.OFFSET_COMMIT: Api(_committed, _unless_refused(_partition_errors("topics"), "topic", "partition")),
    ApiKey.OFFSET_DELETE: Api(_deleted_offsets, _unless_refused(_partition_errors("topics"), "topic", "partition")),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Api(
        _altered_share_offsets, _unless_refused(_partition_errors("responses", "topic_name"), "topic", "partition")
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Api(
        _deleted_share_offsets, _unless_refused(_topic_errors("responses", "topic_name"), "topic")
    ),
    ApiKey.DELETE_GROUPS: Api(
        _deleted_groups,
        _by_target(lambda response: {(part.group_id,): error_in(part) for part in response.results}, "group"),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api(_each(_credential_changes), _by_target(_credential_errors, "user")),
    ApiKey.UPDATE_FEATURES: Api(_each(_feature_changes), _unless_refused(_feature_errors, "feature")),
    ApiKey.WRITE_TXN_MARKERS: Api(_each(_aborted), _by_target(_marker_errors, "producer_id", "topic")),
    ApiKey.INIT_PRODUCER_ID: Api(_single("transaction", _ENDED, transactional_id="transactional_id"), _of_response),
    ApiKey.END_TXN: Api(_single("transaction", _ENDED, transactional_id="transactional_id"), _of_response),
    ApiKey.UNREGISTER_BROKER: Api(
        _single("broker", "the broker registers again when it is started", broker="broker_id"), _of_response
    ),
    ApiKey.ADD_RAFT_VOTER: Api(
        _single("voter", "use kt metadata-quorum remove-controller", controller="voter_id"), _of_response
    ),
    ApiKey.REMOVE_RAFT_VOTER: Api(
        _single("voter", "use kt metadata-quorum add-controller", controller="voter_id"), _of_response
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Api(_single("token-created", f"{_TOKEN} --expire"), _of_response),
    ApiKey.RENEW_DELEGATION_TOKEN: Api(_single("token-renewed", f"{_TOKEN} --expire"), _of_response),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Api(_single("token-expired", "a token that expired is gone"), _of_response),
}
"""The APIs by key: those of CHANGING_APIS."""
