"""kt console-consumer --schema-registry: recorded answers of a real registry, registries that fail, and the cache."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.manual_clock import ManualClock
from support.schema_registry import Answer, Request, recorded, serving
from support.schema_stories import ORDER, Story

from kafkatools import Producer
from kafkatools.tools.schemas.access import RegistryAccess
from kafkatools.tools.schemas.avro_program import AvroProgram
from kafkatools.tools.schemas.decoding_step import RETRY_MS, SchemaDecoders
from kafkatools.tools.schemas.registry import SchemaRegistry

pytest.importorskip("fastavro")

ORDER_7 = b"\0\0\0\0\1\x0e\0"
AS_JSON = b'{"id":7,"note":null}\n'


def order_schema(request: Request) -> Answer:
    known = request.path == "/schemas/ids/1"
    return Answer(200, json.dumps({"schema": json.dumps(ORDER)})) if known else Answer(404, '{"error_code": 40403}')


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("data")) as address:
        with Producer(bootstrap_servers=address) as producer:
            for _ in range(3):
                producer.send("orders", ORDER_7, b"plain key", headers=[("h", b"\0\0\0\0\1")], partition=0)
            for number in range(300):
                producer.send("many", b"\0" + (number + 2).to_bytes(4, "big") + b"x", partition=0)
            for value in (ORDER_7, ORDER_7, b"plain"):
                producer.send("late", value, partition=0)
            producer.send("longs", ORDER_7, (1_700_000_000_000).to_bytes(8, "big"), partition=0)
            producer.send("longs", ORDER_7, (42).to_bytes(8, "big"), partition=0)
        yield address


def consume(bootstrap: str, url: str | None, home: pathlib.Path, *words: str, topic: str = "orders") -> Ran:
    address = ("--schema-registry", url) if url else ()
    end = ("--from-beginning", "--exit-at-end")
    return run_kt(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, *end, *address, *words,
        environ={"KT_HOME": str(home)}, cwd=home,
    )  # fmt: skip


@pytest.mark.slow
def test_records_of_a_recorded_registry(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("google.protobuf")
    with recorded("records") as registry:
        Story(registry.url, tmp_path).records()


def test_keys_headers_and_slices_stay_with_their_records(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        printed = [f"--formatter-property=print.{part}=true" for part in ("key", "headers", "offset")]
        ran = consume(bootstrap, server.url, tmp_path, *printed)
        assert (ran.status, len(server.requests)) == (0, 1)
        line = b'Offset:%d\th:\0\0\0\0\1\tplain key\t{"id":7,"note":null}\n'
        assert ran.stdout == b"".join(line % offset for offset in range(3))
        ordered = ("--order", "time", "--max-messages", "2")
        assert consume(bootstrap, server.url, tmp_path, *ordered).stdout == AS_JSON * 2


def test_the_registry_as_property_and_of_a_profile(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        setting = f"schema.registry.url={server.url}"
        assert consume(bootstrap, None, tmp_path, "--property", setting).stdout == AS_JSON * 3
        (tmp_path / "c.properties").write_text(setting + "\n")
        config = ("--command-config", "c.properties")
        assert consume(bootstrap, None, tmp_path, *config, "--decode", "value").stdout == AS_JSON * 3
        assert consume(bootstrap, None, tmp_path, *config).stdout == (ORDER_7 + b"\n") * 3
        assert consume(bootstrap, None, tmp_path, *config, "--decode", "key").stdout == (ORDER_7 + b"\n") * 3
    missing = consume(bootstrap, None, tmp_path, "--decode", "both")
    assert missing.status == 2 and "Missing the address of the schema registry" in missing.err
    assert consume(bootstrap, "x", tmp_path).status == 2
    assert consume(bootstrap, "http://x", tmp_path, "--decode", "all").status == 2


def test_a_registry_that_is_down_costs_one_attempt_and_the_cache_serves(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        url = server.url
        fresh = tmp_path / "fresh"
        fresh.mkdir()
        assert consume(bootstrap, url, tmp_path).status == 0
    offline = consume(bootstrap, url, tmp_path)
    assert (offline.status, offline.stdout) == (0, AS_JSON * 3)
    assert f"Schemas are read from the cache: {url} does not answer: Connection refused" in offline.err
    raw = consume(bootstrap, url, fresh)
    assert (raw.status, raw.stdout) == (1, (ORDER_7 + b"\n") * 3)
    assert raw.err.count(f"{url} does not answer") == 4, "once at first, and for each of the three values"
    assert "3 keys or values were not decoded and stayed as they were:" in raw.err


def test_records_beyond_the_limit_are_not_reported(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        words = ("--topic", "late", "--from-beginning", "--schema-registry", server.url, "--max-messages")
        for limit, expected in (("1", (0, AS_JSON)), ("2", (0, AS_JSON * 2)), ("3", (1, AS_JSON * 2 + b"plain\n"))):
            ran = run_kt(
                "console-consumer", "--bootstrap-server", bootstrap, *words, limit, environ={"KT_HOME": str(tmp_path)}
            )
            assert (ran.status, ran.stdout) == expected, ran
            assert ("not decoded" in ran.err) == (limit == "3"), ran.err


@pytest.mark.parametrize("option", ["--value-deserializer=", "--formatter-property=value.deserializer="])
def test_decoded_values_have_no_other_deserializer(bootstrap: str, tmp_path: pathlib.Path, option: str) -> None:
    with serving(order_schema) as server:
        name = "org.apache.kafka.common.serialization.LongDeserializer"
        refused = consume(bootstrap, server.url, tmp_path, option + name)
        assert (refused.status, refused.stdout, server.requests) == (2, b"", [])
        assert refused.err.startswith(f"{name} cannot read values that are decoded to JSON text: leave it out")
        text = option + name.replace("Long", "String")
        assert consume(bootstrap, server.url, tmp_path, text).stdout == AS_JSON * 3


def test_advice_of_a_refused_login_is_printed(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(lambda request: Answer(401, "{}")) as server:
        lines = consume(bootstrap, server.url, tmp_path).err.splitlines()
    assert lines[0].startswith(f"Records are not decoded: {server.url}/schemas/ids/1: 401 Unauthorized")
    assert lines[1].startswith("Set basic.auth.user.info=USER:PASSWORD or bearer.auth.token")


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [Answer(401, '{"message": "no"}'), Answer(200, "<html>", "text/html"), Answer(500, "{}"), Answer(200, "[1]")],
    ids=["401", "html", "500", "list"],
)
def test_failing_answers_leave_records_as_they_are(bootstrap: str, tmp_path: pathlib.Path, answer: Answer) -> None:
    with serving(lambda request: answer) as server:
        ran = consume(bootstrap, server.url, tmp_path, topic="many")
        assert ran.status == 1 and ran.stdout.startswith(b"\0\0\0\0\2x\n")
        assert len(server.requests) <= 3 or answer.body == "[1]", "no request per record"
        assert len(ran.err.splitlines()) < 120


def test_unknown_ids_are_not_requested_without_end(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        ran = consume(bootstrap, server.url, tmp_path, topic="many")
        assert ran.status == 1 and "300 keys or values were not decoded" in ran.err and "and 295 more" in ran.err
        assert len(server.requests) == 100


def test_a_schema_that_is_registered_late_is_requested_again() -> None:
    registered = {1}

    def respond(request: Request) -> Answer:
        number = int(request.path.rpartition("/")[2])
        return (
            Answer(200, '{"schema": "\\"string\\""}') if number in registered else Answer(404, '{"error_code": 40403}')
        )

    clock = ManualClock()
    with serving(respond) as server:
        decoders = SchemaDecoders(SchemaRegistry(RegistryAccess((server.url,)), clock=clock), clock, lambda line: None)
        for _ in range(120):  # one unknown schema is no reason to give up others
            assert not isinstance(decoders.get(2), AvroProgram)
            clock.advance_ms(RETRY_MS)
        assert isinstance(decoders.get(1), AvroProgram)
        registered.add(2)
        clock.advance_ms(RETRY_MS)
        assert isinstance(decoders.get(2), AvroProgram)


def test_keys_that_are_numbers(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(order_schema) as server:
        key = ("--formatter-property", "print.key=true")
        only_values = consume(bootstrap, server.url, tmp_path, *key, "--decode", "value", topic="longs")
        assert only_values.status == 0 and only_values.stdout.count(b'\t{"id":7') == 2
        both = consume(bootstrap, server.url, tmp_path, *key, topic="longs")
        assert both.status == 1 and "longs-0 offset 0: key not decoded: the registry has no schema" in both.err
        assert "offset 1" not in both.err, "a key that begins with five zeros has no schema ID"


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"schema": "{"}, "schema 1 is not a valid Avro schema"),
        ({"schema": "{}", "schemaType": "XML"}, "schema 1 has the type XML, which kt does not decode"),
        ({"schema": "message {", "schemaType": "PROTOBUF"}, "schema 1: registered-schema.proto"),
        ({"schema": '"string"', "references": [{"name": "n", "subject": "gone", "version": 2}]}, "version 2 of gone"),
    ],
    ids=["avro", "xml", "protobuf", "reference"],
)
def test_schemas_that_cannot_be_used(
    bootstrap: str, tmp_path: pathlib.Path, schema: dict[str, object], error: str
) -> None:
    def respond(request: Request) -> Answer:
        is_schema = request.path.startswith("/schemas/ids/1")
        return Answer(200, json.dumps(schema)) if is_schema else Answer(404, '{"error_code": 40401}')

    with serving(respond) as server:
        ran = consume(bootstrap, server.url, tmp_path)
        assert (ran.status, ran.stdout) == (1, (ORDER_7 + b"\n") * 3)
        assert error in ran.err


@pytest.mark.slow
def test_masks_apply_to_decoded_fields_and_hide_values_that_cannot_be_decoded(
    bootstrap: str, tmp_path: pathlib.Path
) -> None:
    with serving(order_schema) as server:
        masked = consume(bootstrap, server.url, tmp_path, "--mask", "value.id=null", "--json")
        assert masked.status == 0
        assert [json.loads(json.loads(line)["value"]) for line in masked.out.splitlines()] == [
            {"id": None, "note": None}
        ] * 3
        hidden = consume(bootstrap, server.url, tmp_path, "--mask", "value.id=null", topic="many")
        assert hidden.status == 1
        assert b"\0\0\0\0" not in hidden.stdout
        assert "300 keys or values were not decoded and stayed as they were" in hidden.err
