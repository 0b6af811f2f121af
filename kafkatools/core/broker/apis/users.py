"""Handlers for users and clients: SCRAM credentials, client quotas; SaslHandshake and SaslAuthenticate outside of the
authentication, during which `security/sasl_dispatch.py` answers them.

`server/quotas.py` says which quotas are enforced.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.metadata.controller.client_quotas import Alteration, Component, Entity, entity_of
from kafkatools.core.broker.metadata.controller.client_quotas import describe as describe_quotas
from kafkatools.core.broker.metadata.controller.scram import Upsertion
from kafkatools.core.broker.metadata.controller.scram import describe as describe_scram
from kafkatools.core.broker.node_parts import Rights
from kafkatools.core.broker.server.apis import decode_permitted, ensure_permitted, is_permitted
from kafkatools.core.broker.server.requests import Request, Response, error_fields, outcome_fields
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    IllegalSaslState,
    KafkaError,
)
from kafkatools.core.protocol.entities import Fields


def handle_describe_user_scram_credentials(node: ChangeContext, request: Request) -> Response:
    """Answer DescribeUserScramCredentials: SCRAM mechanisms and iterations of the named users, or of all users. Raises
    ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    users = None if entity.users is None else [user.name for user in entity.users]
    results = describe_scram(node.image.scram, users)
    return request.respond({"error_message": "", "results": results})


def handle_alter_user_scram_credentials(node: ChangeContext, request: Request) -> Response:
    """Answer AlterUserScramCredentials: set and delete SCRAM credentials, one result per user. When the whole request
    fails, as without ALTER on the cluster, every user has the error."""
    entity = request.decode()
    deletions = [(deletion.name, int(deletion.mechanism)) for deletion in entity.deletions]
    upsertions = [
        Upsertion(
            upsertion.name, int(upsertion.mechanism), upsertion.iterations, upsertion.salt, upsertion.salted_password
        )
        for upsertion in entity.upsertions
    ]
    outcomes: dict[str, KafkaError | None]
    try:
        ensure_permitted(node, request)
        outcomes = node.controller.alter_scram_credentials(deletions, upsertions)
    except KafkaError as error:
        outcomes = dict.fromkeys([name for name, _ in deletions] + [upsertion.name for upsertion in upsertions], error)
    return request.respond({"results": [{"user": user, **outcome_fields(error)} for user, error in outcomes.items()]})


def handle_describe_client_quotas(node: ChangeContext, request: Request) -> Response:
    """Answer DescribeClientQuotas: the quotas of the entities that match the filter. With an error, as without
    DESCRIBE_CONFIGS on the cluster, the entries are null."""
    entity = request.decode()
    components = [
        Component(component.entity_type, int(component.match_type), component.match) for component in entity.components
    ]
    if not is_permitted(node, request):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "entries": None})
    try:
        quotas = describe_quotas(node.image.client_quotas, components, strict=entity.strict)
    except KafkaError as error:
        return request.respond({**error_fields(error), "entries": None})
    entries = [
        {
            "entity": entity_fields(quota_entity),
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for quota_entity, values in quotas.items()
    ]
    return request.respond({"error_message": "", "entries": entries})


def entity_fields(entity: Entity) -> list[Fields]:
    """The `entity_type` and `entity_name` fields of each part of a quota entity; the name None stands for the
    default."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def handle_alter_client_quotas(node: ChangeContext, request: Request) -> Response:
    """Answer AlterClientQuotas: set and remove quotas, or with `validate_only` check that; one result per entity, which
    changes as a whole or not at all. Without ALTER_CONFIGS on the cluster every entity has the error."""
    entity = request.decode()
    alterations = [
        Alteration(
            entity_of({part.entity_type: part.entity_name for part in entry.entity}),
            [(operation.key, None if operation.remove else operation.value) for operation in entry.ops],
        )
        for entry in entity.entries
    ]
    outcomes: dict[Entity, KafkaError | None]
    try:
        ensure_permitted(node, request)
        outcomes = node.controller.alter_client_quotas(alterations, validate_only=entity.validate_only)
    except KafkaError as error:
        outcomes = {alteration.entity: error for alteration in alterations}
    entries = [
        {**outcome_fields(problem), "entity": entity_fields(quota_entity)} for quota_entity, problem in outcomes.items()
    ]
    return request.respond({"entries": entries})


def handle_sasl_handshake(node: Rights, request: Request) -> Response:
    """Refuse SaslHandshake with ILLEGAL_SASL_STATE: the listener does not use SASL, or the client has authenticated and
    its session has no end."""
    request.decode()
    return request.respond({"error_code": IllegalSaslState.code, "mechanisms": []})


def handle_sasl_authenticate(node: Rights, request: Request) -> Response:
    """Refuse SaslAuthenticate with ILLEGAL_SASL_STATE."""
    request.decode()
    message = "SaslAuthenticate request received after successful authentication"
    return request.respond({"error_code": IllegalSaslState.code, "error_message": message})
