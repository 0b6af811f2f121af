"""SCRAM credentials: DescribeUserScramCredentials, AlterUserScramCredentials."""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.metadata.controller.configs import error_fields, outcome_fields
from kafkatools.core.broker.metadata.controller.scram import Upsertion, describe
from kafkatools.core.broker.server.apis import ensure_permitted
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError


def handle_describe_user_scram_credentials(node: ChangeContext, request: Request) -> Response:
    """DescribeUserScramCredentials: mechanisms and iterations, never keys. One result per user; without users all that
    have a credential."""
    entity = request.decode()
    try:
        ensure_permitted(node, request)
    except KafkaError as error:
        return request.respond({**error_fields(error), "results": []})
    users = None if entity.users is None else [each.name for each in entity.users]
    results = describe(node.image.scram, users)
    return request.respond({"error_code": 0, "error_message": "", "results": results})


def handle_alter_user_scram_credentials(node: ChangeContext, request: Request) -> Response:
    """AlterUserScramCredentials: each user's credential is set or removed for itself.

    One result per user.
    Not done: nothing; the credentials are stored, a listener with SASL does not exist yet.
    """
    entity = request.decode()
    deletions = [(each.name, int(each.mechanism)) for each in entity.deletions]
    upsertions = [
        Upsertion(each.name, int(each.mechanism), each.iterations, each.salt, each.salted_password)
        for each in entity.upsertions
    ]
    outcomes: dict[str, KafkaError | None]
    try:
        ensure_permitted(node, request)
        outcomes = node.controller.alter_scram_credentials(deletions, upsertions)
    except KafkaError as error:
        outcomes = dict.fromkeys([name for name, _ in deletions] + [each.name for each in upsertions], error)
    return request.respond(
        {"results": [{"user": user, **outcome_fields(problem)} for user, problem in outcomes.items()]}
    )
