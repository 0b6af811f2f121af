"""Records in the page's data, /messages.json, over real sockets: slices, forms, searches, limits, schemas, masks and
errors."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import select
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from support.embedded import embedded_broker
from support.schema_registry import Answer, Request, serving
from support.schema_stories import ORDER
from support.waiting import eventually

import kafkatools
from kafkatools import Acl, Producer
from kafkatools.commands.monitor.access import Access, Role, Token
from kafkatools.commands.monitor.messages import messages_route, parse_query
from kafkatools.commands.monitor.routes import Site
from kafkatools.commands.monitor.server import listening
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.net import http_server
from kafkatools.core.net.addresses import HostPort
from kafkatools.output import json_line
from kafkatools.tools.monitor.messages import launching
from kafkatools.tools.monitor.messages.reading import read_messages
from kafkatools.tools.monitor.messages.request import Registry, Source, from_json, to_json

HOST = "127.0.0.1"
TOKEN = "read-token-0123456789"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
T0 = 1_700_000_000_000
LONG = "a" * 30_000
ORDER_7 = b"\0\0\0\0\1\x0e\0"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`events`: 30 records a second apart in 3 partitions, the number as JSON; `odd`: a record of each kind; `orders`:
    schemas; `secret`: nobody may read it; `slow`: a record that an expression needs ages for."""
    rights = {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with embedded_broker(tmp_path_factory.mktemp("broker"), super_users="", **rights) as address:
        with AdminClient(address, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("events", 3, 1), *(NewTopic(name, 1, 1) for name in ("odd", "secret"))])
        with Producer(bootstrap_servers=address) as producer:
            for number in range(30):
                producer.send(
                    "events", b'{"n":%d}' % number, b"key-%d" % (number % 10), partition=number % 3,
                    timestamp=T0 + 1000 * number,
                )  # fmt: skip
            headers = [("plain", b"text"), ("bytes", b"\xff"), ("null", None)]
            producer.send("odd", b"\xff\x00\x10", None, headers=headers, partition=0)
            producer.send("odd", None, b"deleted", partition=0)
            producer.send("odd", b' {"a": 1.0, "a": [1e400, {}],"b":"\\u003c\\n"}', b"", partition=0)
            producer.send("odd", LONG.encode(), "k\u202e\x1b[2J".encode(), partition=0)
            producer.send("odd", b"[" * 101 + b"]" * 101, partition=0)
            producer.send("slow", b"a" * 40 + b"!", partition=0)
            for value in (ORDER_7, b"\0\0\0\0\2x", b"plain", b"\0\0\0\0\1\xff"):
                producer.send("orders", value, b"alice", partition=0)
            producer.send("people", b'{"name":"Ann Smith","id":1}', b"ann", headers=[("by", b"ann")], partition=0)
        with kafkatools.Admin(bootstrap_servers=address) as admin:
            admin.create_acls([Acl("TOPIC", "secret", "User:ANONYMOUS", "READ", "DENY")])
        yield address


@contextlib.contextmanager
def monitor(source: Source) -> Iterator[int]:
    """The port of a server of records."""
    route = messages_route(source, lambda topic: topic != "hidden", SystemClock())
    access = Access({Role.READ: Token(TOKEN, is_ours=True)})
    with listening(HostPort(HOST, 0), Site({"/messages.json": route}, access)) as port:
        yield port


@pytest.fixture(scope="module")
def source(bootstrap: str) -> Source:
    return Source({"bootstrap.servers": bootstrap})


@pytest.fixture(scope="module")
def port(source: Source) -> Iterator[int]:
    with monitor(source) as found:
        yield found


def get(port: int, topic: str = "events", **fields: object) -> tuple[int, Any]:
    """Status and body of a request for records."""
    query = urlencode({"topic": topic, **fields})
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("GET", f"/messages.json?{query}", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert (
        answer.headers["Content-Type"] == "application/json" and answer.headers["X-Content-Type-Options"] == "nosniff"
    )
    return answer.status, body


def read(source: Source, topic: str = "events", **fields: object) -> Any:
    """The body for the same request, read in this process."""
    clock = SystemClock()
    request = parse_query({"topic": topic, **{name: str(value) for name, value in fields.items()}}, clock.wall_ms())
    assert from_json(to_json(source, request)) == (source, request)
    return json.loads(json_line(read_messages(source, request, clock, lambda progress: None)))


def numbers(source: Source, **fields: object) -> list[int]:
    """The numbers of the records of `events`, in their order."""
    body = read(source, **fields)
    assert body["stopped"] is None, body
    return [json.loads(record["value"]["text"])["n"] for record in body["records"]]


# -- slices --


def test_parts_of_a_topic(source: Source) -> None:
    assert numbers(source) == [*range(29, -1, -1)], "the newest first"
    assert numbers(source, last=4) == [29, 28, 27, 26], "of all partitions together"
    assert numbers(source, last=3, partitions="0,2") == [29, 27, 26]
    assert numbers(source, partitions="1-2", since="2023-11-14T22:13:40Z") == [20, 22, 23, 25, 26, 28, 29]
    assert numbers(source, since=T0 + 26_000) == [26, 27, 28, 29], "the oldest first, merged"
    assert numbers(source, until=T0 + 3000) == [0, 1, 2]
    assert numbers(source, since=T0, limit=5) == [0, 1, 2, 3, 4]
    assert numbers(source, offset="2:4", partitions=1) == [7, 10]
    assert numbers(source, offset="-1") == [27, 28, 29]
    assert numbers(source, offset=f"@{T0 + 28_000}") == [28, 29]


def test_what_is_left_out_is_told(source: Source) -> None:
    body = read(source, since=T0, limit=5)
    assert (body["is_full"], body["is_complete"], body["search"]) == (True, False, None)
    body = read(source, partitions=0, offset="5:99")
    assert (len(body["records"]), body["notes"]) == (5, ["events-0 ends at offset 10, before offset 99"])
    assert body["is_complete"]


# -- forms --


def test_forms_of_keys_values_and_headers(source: Source) -> None:
    binary, null, strange, long, deep = read(source, "odd", offset="start")["records"]
    assert binary["value"] == {"form": "hex", "text": "ff 00 10", "bytes": 3} and binary["key"] is None
    assert binary["headers"] == [
        [{"form": "text", "text": "plain", "bytes": 5}, {"form": "text", "text": "text", "bytes": 4}],
        [{"form": "text", "text": "bytes", "bytes": 5}, {"form": "hex", "text": "ff", "bytes": 1}],
        [{"form": "text", "text": "null", "bytes": 4}, None],
    ]  # fmt: skip
    assert (null["key"]["text"], null["value"]) == ("deleted", None)
    assert strange["key"] == {"form": "text", "text": "", "bytes": 0}
    assert strange["value"]["text"] == ('{\n  "a": 1.0,\n  "a": [\n    1e400,\n    {}\n  ],\n  "b": "\\u003c\\n"\n}'), (
        "numbers, equal names and escapes as they are"
    )
    assert long["key"]["text"] == "k\\u202e\\x1b[2J", "no control characters"
    assert (len(long["value"]["text"]), long["value"]["bytes"], long["value"]["cut"]) == (16_384, 30_000, True)
    assert deep["value"]["form"] == "text", "nested beyond 100 levels"


def test_one_record_as_a_whole(source: Source) -> None:
    (record,) = read(source, "odd", partitions=0, offset="3:4", whole=1)["records"]
    assert record["value"] == {"form": "text", "text": LONG, "bytes": 30_000}


# -- searches --


def test_searches_say_how_far_they_looked(source: Source) -> None:
    body = read(source, key="key-7")
    assert ([record["offset"] for record in body["records"]], body["is_complete"]) == ([2, 5, 9], True)
    assert body["search"]["summary"].startswith("Searched 30 records of 3 partitions (events-0 offsets 0 to 9, ")
    assert (body["search"]["found"], body["notes"][0].startswith("Reading all 3 partitions")) == (3, True)
    assert numbers(source, grep=r'"n":2\d}') == [*range(20, 30)]
    assert numbers(source, grep="KEY-1", ignore_case=1, grep_in="key") == [1, 11, 21]
    assert numbers(source, grep="KEY-1") == []
    assert numbers(source, grep="key", grep_in="value,headers") == []
    assert numbers(source, key="key-2", grep="12") == [12]
    assert numbers(source, grep="n", last=2) == [29, 28], "among the newest records"
    body = read(source, grep="n", last=20, limit=3)
    assert [record["offset"] for record in body["records"]] == [9, 9, 9] and body["search"]["found"] == 20
    assert (body["is_full"], body["is_complete"]) == (True, False), "the newest of those found"
    body = read(source, grep="n", partitions=0, limit=2)
    assert (len(body["records"]), body["is_full"], body["search"]["found"]) == (2, True, 2)


def _readers() -> list[str]:
    """The reader processes of this process."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"reader_process" in (path.parent / "cmdline").read_bytes():
                found.append(path.parent.name)
    return found


@pytest.mark.slow
def test_an_expression_that_never_ends_is_stopped(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_GRACE_S", 0.5)
    status, body = get(port, "slow", grep="(a+)+$", seconds=1)
    assert (status, body["error"]) == (504, "Stopped after 1 s, within one record or lookup.")
    assert _readers() == []


def ask(port: int, **fields: object) -> socket.socket:
    """A request whose answer is not read yet."""
    client = socket.create_connection((HOST, port), 30)
    head = (
        f"GET /messages.json?{urlencode(fields)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    client.sendall(head.encode())
    return client


def test_a_client_that_goes_away_stops_the_read(port: int) -> None:
    with ask(port, topic="slow", grep="(a+)+$", seconds=60) as client:
        eventually(lambda: len(_readers()) == 1)
        client.close()
        eventually(lambda: _readers() == [])


def test_a_server_that_stops_stops_its_reads(bootstrap: str) -> None:
    with monitor(Source({"bootstrap.servers": bootstrap})) as other:
        client = ask(other, topic="slow", grep="(a+)+$", seconds=60)
        eventually(lambda: len(_readers()) == 1)
    assert _readers() == []
    client.close()


def test_reads_at_the_same_time_are_limited(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LONG_REPLIES", 1)
    eventually(lambda: _readers() == [])
    with slow_read(port), ask(port, topic="events") as second:
        assert second.recv(65536).startswith(b"HTTP/1.1 503 ")
    eventually(lambda: _is_answered(port))


@contextlib.contextmanager
def slow_read(port: int) -> Iterator[None]:
    """A read that goes on. An earlier one, whose process has ended, may hold its place a moment longer."""
    while True:
        with ask(port, topic="slow", grep="(a+)+$", seconds=60) as client:
            while not _readers() and not select.select([client], [], [], 0.02)[0]:
                pass
            if _readers():
                yield
                return


def _is_answered(port: int) -> bool:
    with ask(port, topic="events", last=1) as client:
        return client.recv(65536).startswith(b"HTTP/1.1 200 ")


# -- errors --


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"topic": "ghost"}, 404, "Topic ghost does not exist"),
        ({"topic": "a/b"}, 404, "Invalid topics: [a/b]"),
        ({"partitions": 7}, 404, "Topic events has no partition 7, only 0 to 2"),
        ({"topic": "secret"}, 403, "kt monitor may not read this topic: "),
        ({"topic": "hidden"}, 403, "kt monitor was started without topic hidden (--topic)"),
        ({"topic": ""}, 400, "Choose a topic"),
        ({"grep": "("}, 400, "Invalid regular expression: missing ), unterminated subpattern at position 0"),
        ({"grep": "a", "grep_in": "body"}, 400, "Invalid grep_in 'body': it is none of key, value, headers"),
        ({"since": "yesterday"}, 400, "Invalid since: 'yesterday' is not a time. Write a duration before now"),
        ({"since": "-1h", "until": "-2h"}, 400, "until '-2h' is not after since '-1h'"),
        ({"offset": "5:1"}, 400, "Invalid offset: '5:1' ends before it starts"),
        ({"offset": "1", "last": 3}, 400, "Choose one of: newest records (last), a time (since, until), offsets"),
        ({"partitions": "3-1"}, 400, "Invalid partitions '3-1': write numbers and ranges such as 0,3-5, or all"),
        ({"partitions": "0-999999999"}, 400, "Invalid partitions"),
        ({"limit": 501}, 400, "Invalid limit '501': write a number from 1 to 500"),
        ({"limit": "\u0661"}, 400, "Invalid limit"),
        ({"seconds": 0}, 400, "Invalid seconds '0': write a number from 1 to 60"),
        ({"regex": "a"}, 400, "Unknown field 'regex'"),
    ],
)
def test_an_error_is_one_clear_line(port: int, fields: dict[str, object], status: int, error: str) -> None:
    found, body = get(port, **fields)  # type: ignore[arg-type]
    assert (found, list(body)) == (status, ["error"])
    assert body["error"].startswith(error) and "\n" not in body["error"], body


def test_reading_creates_no_topic(bootstrap: str, port: int) -> None:
    get(port, "ghost")
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        assert "ghost" not in [topic.name for topic in list_topics(admin)]


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    with socket.create_server((HOST, 0)) as closed:
        address = f"{HOST}:{closed.getsockname()[1]}"
    with monitor(Source({"bootstrap.servers": address, "sasl.jaas.config": "secret"})) as port:
        status, body = get(port, seconds=1)
    assert status == 502 and "Connection refused" in body["error"] and address in body["error"]


def test_only_get(port: int) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    for method, status in (("HEAD", 405), ("POST", 405)):
        connection.request(method, "/messages.json?topic=events", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


# -- schemas --


def order_schema(request: Request) -> Answer:
    known = request.path == "/schemas/ids/1"
    return Answer(200, json.dumps({"schema": json.dumps(ORDER)})) if known else Answer(404, '{"error_code": 40403}')


def decoding(bootstrap: str, url: str, home: pathlib.Path, *masks: str) -> Source:
    registry = Registry({}, url, str(home), keys=True, values=True)
    return Source({"bootstrap.servers": bootstrap}, registry, masks, b"k")


def test_each_record_is_decoded_or_marked(bootstrap: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("fastavro")
    with serving(order_schema) as server:
        source = decoding(bootstrap, server.url, tmp_path)
        body, found = read(source, "orders", offset="start"), read(source, "orders", grep='"id":7')
    values = [record["value"] for record in body["records"]]
    assert values[0] == {"form": "json", "text": '{\n  "id": 7,\n  "note": null\n}', "bytes": 20, "schema": 1}
    assert values[1] == {
        "form": "text", "text": "\\x00\\x00\\x00\\x00\\x02x", "bytes": 6,
        "not_decoded": "the registry has no schema 2",
    }  # fmt: skip
    assert values[2]["not_decoded"] == "it does not begin with byte 0 and a schema ID"
    assert values[3]["not_decoded"] == "it is not of schema 1" and values[3]["form"] == "hex"
    assert body["not_decoded"] == 3
    assert {record["key"]["text"] for record in body["records"]} == {"alice"}, "plain keys are not marked"
    assert [record["offset"] for record in found["records"]] == [0], "a search looks at the decoded text"


@pytest.mark.slow
def test_without_the_registry_records_are_raw_and_marked(bootstrap: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("fastavro")
    with socket.create_server((HOST, 0)) as closed:
        url = f"http://{HOST}:{closed.getsockname()[1]}"
    with monitor(decoding(bootstrap, url, tmp_path)) as port:
        status, body = get(port, "orders", offset="start")
    assert (status, body["not_decoded"], len(body["notes"])) == (200, 4, 1)
    assert url in body["notes"][0] and body["notes"][0].startswith("Records are not decoded: ")
    assert url in body["records"][0]["value"]["not_decoded"] and body["records"][2]["value"]["text"] == "plain"


# -- masks --


def test_masked_contents_are_neither_shown_nor_found(bootstrap: str, tmp_path: pathlib.Path) -> None:
    masks = ("value.name=last4", "key=null", "headers.by=hash")
    with monitor(Source({"bootstrap.servers": bootstrap}, None, masks, b"k")) as port:
        (record,) = get(port, "people")[1]["records"]
    source = Source({"bootstrap.servers": bootstrap}, None, masks, b"k")
    for search in ({"grep": "Ann"}, {"grep": "ann"}, {"key": "ann"}, {"grep": "by.*ann"}):
        assert read(source, "people", **search)["records"] == []
    assert len(read(source, "people", grep="mith")["records"]) == 1, "what is shown can be found"
    assert json.loads(record["value"]["text"]) == {"name": "****mith", "id": 1} and record["key"] is None
    assert record["headers"][0][1]["text"] != "ann" and "Ann" not in json.dumps(record)


def test_spaces_of_shown_json_that_find_nothing_are_explained(source: Source) -> None:
    """The record is `{"name":"Ann Smith","id":1}`, and shown as `"id": 1`."""
    for grep, found in ((r'"id":\s*1', 1), ('"id":1', 1), ("Ann S", 1), ("nobody", 0)):
        body = read(source, "people", grep=grep)
        assert (body["search"]["found"], body["notes"]) == (found, []), grep
    (note,) = read(source, "people", grep='"id": 1')["notes"]
    assert note.startswith("Spaces: JSON is shown with other spaces") and r"\s*" in note


def test_errors_do_not_show_masked_contents(bootstrap: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("fastavro")
    with serving(order_schema) as server:
        body = read(decoding(bootstrap, server.url, tmp_path, "value.id=null"), "orders", offset="start")
    values = [record["value"] for record in body["records"]]
    assert json.loads(values[0]["text"]) == {"id": None, "note": None} and values[0]["schema"] == 1
    assert values[1:] == [None] * 3, "what is not JSON is hidden as a whole"
    assert body["not_decoded"] == 3 and any("were masked whole" in note for note in body["notes"])
