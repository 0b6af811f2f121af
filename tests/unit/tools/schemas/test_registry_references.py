"""Schemas with references from registries that answer by a table: deleted references, and Protobuf descriptors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from support.schema_registry import Answer, Request, serving

from kafkatools.tools.schemas.access import RegistryAccess
from kafkatools.tools.schemas.registry import SchemaRegistry

LINE = 'syntax = "proto3"; message Line { int32 n = 1; }'
ORDER = 'syntax = "proto3"; import "line.proto"; message Order { repeated Line lines = 1; }'
REFERENCES = [{"name": "line.proto", "subject": "line", "version": 1}]


@contextmanager
def registry_of(schemas: Mapping[str, str]) -> Iterator[SchemaRegistry]:
    """A registry with schemas by path; those by ID refer to version 1 of the subject line."""

    def respond(request: Request) -> Answer:
        text = schemas.get(request.path)
        if text is None:
            return Answer(404, '{"error_code": 40402}')
        references = REFERENCES if request.path.startswith("/schemas/") else []
        return Answer(200, json.dumps({"schema": text, "schemaType": "PROTOBUF", "references": references}))

    with serving(respond) as server:
        yield SchemaRegistry(RegistryAccess((server.url,)))


@pytest.mark.parametrize("query", ["", "?format=serialized"])
def test_a_reference_that_is_deleted_but_not_permanently_is_found(query: str) -> None:
    deleted = "/subjects/line/versions/1?deleted=true" + query.replace("?", "&")
    with registry_of({f"/schemas/ids/5{query}": "bWFpbg==", deleted: "bGluZQ=="}) as registry:
        schema = registry.by_id(5, query.removeprefix("?format="))
    assert schema is not None
    assert [(name, one.text) for name, one in schema.references] == [("line.proto", "bGluZQ==")]


@pytest.mark.parametrize("serializes_references", [True, False])
def test_protobuf_values_are_decoded_whether_or_not_references_are_serialized(serializes_references: bool) -> None:
    pytest.importorskip("grpc_tools")
    from kafkatools.tools.schemas.row_decoders import ProtobufRows

    answers = {
        "/schemas/ids/5": ORDER,
        "/schemas/ids/5?format=serialized": _serialized(ORDER, "order.proto"),
        "/subjects/line/versions/1": LINE,
        "/subjects/line/versions/1?format=serialized": LINE,
    }
    if serializes_references:
        answers["/subjects/line/versions/1?format=serialized"] = _serialized(LINE, "line.proto")
    with registry_of(answers) as registry:
        schema = registry.by_id(5, "serialized")
    assert schema is not None
    assert ProtobufRows(schema, "schema 5").text(b"\0\0\0\0\5\0\x0a\x02\x08\x07") == b'{"lines": [{"n": 7}]}'


def _serialized(source: str, name: str) -> str:
    """The descriptor of a source in base64, without those that it imports, as a registry answers with it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from kafkatools.tools.schemas.protobuf_schema import descriptors_of
    from kafkatools.tools.schemas.registry import RegisteredSchema

    references = () if name == "line.proto" else (("line.proto", RegisteredSchema(LINE, "PROTOBUF")),)
    files = FileDescriptorSet.FromString(descriptors_of(RegisteredSchema(source, "PROTOBUF", references), name)).file
    return base64.b64encode(files[-1].SerializeToString()).decode()
