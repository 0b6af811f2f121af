"""Runs of commands against a schema registry, a recorded or a real one: what they print and how they end."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools import Producer

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int", "default": 0}]}  # type: ignore[misc]
OTHER = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
BASKET = {
    "type": "record",
    "name": "Basket",
    "namespace": "shop",
    "fields": [{"name": "orders", "type": {"type": "array", "items": "shop.Order"}}],
}
PROTO = 'syntax = "proto3";\npackage shop;\nmessage Payment { int64 id = 1; string note = 2; }\n'
JSON_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


class Story:
    """Runs `kt schemas` against a registry in a directory of its own."""

    def __init__(self, url: str, directory: pathlib.Path) -> None:
        self.url = url
        self.directory = directory
        for name, schema in (
            ("order.avsc", ORDER), ("wider.avsc", WIDER), ("other.avsc", OTHER), ("basket.avsc", BASKET),
            ("ticket.json", JSON_SCHEMA),
        ):  # fmt: skip
            (directory / name).write_text(json.dumps(schema))
        (directory / "payment.proto").write_text(PROTO)

    def kt(self, *words: str, status: int = 0) -> Ran:
        """Run `kt schemas WORDS`."""
        ran = run_kt("schemas", *words, "--schema-registry", self.url, cwd=self.directory)
        assert ran.status == status, (words, ran)
        return ran

    def rows(self, *words: str, status: int = 0) -> list[Any]:
        """Run it with --json and return the lines of stdout."""
        return [json.loads(line) for line in self.kt(*words, "--json", status=status).out.splitlines()]

    def subjects(self) -> None:
        """Register, list, show, check and delete."""
        assert self.rows("list") == []
        dry = self.rows("register", "orders-value", "--schema", "order.avsc", "--dry-run")
        assert dry == [{"subject": "orders-value", "id": None, "version": None, "registered": False}]
        (first,) = self.rows("register", "orders-value", "--schema", "order.avsc")
        assert (first["version"], first["registered"]) == (1, True)
        (again,) = self.rows("register", "orders-value", "--schema", "order.avsc")
        assert again == {**first, "registered": False}
        self.kt("set-compatibility", "orders-value", "--level", "backward")
        assert self.kt("compatibility", "orders-value").out == "BACKWARD\n"
        self._compatibility()
        assert self.kt("register", "orders-value", "--schema", "wider.avsc").out.startswith(
            "Registered orders-value version 2, ID "
        )
        (shown,) = self.rows("show", "orders-value:1")
        assert json.loads(shown.pop("schema")) == ORDER
        assert shown == {
            "subject": "orders-value", "version": 1, "id": first["id"], "type": "AVRO", "references": [],
        }  # fmt: skip
        assert json.loads(self.kt("show", "orders-value").out) == WIDER
        assert json.loads(self.kt("show", "--id", str(first["id"])).out) == ORDER
        self._other_types()
        self._deletions()

    def _compatibility(self) -> None:
        assert self.kt("check", "orders-value", "--schema", "wider.avsc").out == "Compatible with orders-value\n"
        (row,) = self.rows("check", "orders-value", "--schema", "other.avsc", status=3)
        assert row["compatible"] is False and "STRING" in row["messages"][0]
        refused = self.kt("register", "orders-value", "--schema", "other.avsc", status=1)
        assert "409 Conflict" in refused.err and refused.err.count("\n") == 1

    def _other_types(self) -> None:
        reference = ("--reference", "shop.Order=orders-value:1")
        self.kt("register", "baskets-value", "--schema", "basket.avsc", *reference)
        self.kt("register", "payments-value", "--schema", "payment.proto")
        self.kt("register", "tickets-value", "--schema", "ticket.json")
        names = ["baskets-value", "orders-value", "payments-value", "tickets-value"]
        assert self.kt("list").out.split() == names
        (basket,) = self.rows("versions", "baskets-value")
        assert basket["references"] == [{"name": "shop.Order", "subject": "orders-value", "version": 1}]
        assert self.rows("versions", "payments-value")[0]["type"] == "PROTOBUF"
        assert "message Payment" in self.kt("show", "payments-value").out
        assert json.loads(self.kt("show", "tickets-value").out) == JSON_SCHEMA

    def _deletions(self) -> None:
        assert "9" in self.kt("delete", "tickets-value:9", status=1).err
        (dry,) = self.rows("delete", "tickets-value", "--dry-run")
        assert dry == {"subject": "tickets-value", "versions": [1], "deleted": False, "permanent": False}
        assert self.kt("delete", "tickets-value", "--permanent").out == "Deleted tickets-value version 1 permanently\n"
        assert {"subject": "tickets-value", "deleted": False} not in self.rows("list")
        self.kt("show", "tickets-value", status=1)

    def records(self) -> None:
        """Read records that Avro, Protobuf and JSON Schema wrote, with references, in one topic, and others among
        them."""
        ids = {}
        for subject, words in (
            ("orders", ("order.avsc",)),
            ("baskets", ("basket.avsc", "--reference", "shop.Order=orders:1")),
            ("payments", ("payment.proto",)),
            ("tickets", ("ticket.json",)),
        ):
            (row,) = self.rows("register", subject, "--schema", *words)
            ids[subject] = b"\0" + row["id"].to_bytes(4, "big")
        values = [
            ids["orders"] + b"\x0e\x02\x04hi",  # by Avro's rules: 7 as zigzag, branch 1, a text of two bytes
            ids["baskets"] + b"\x02\x02\x00\x00",
            ids["payments"] + b"\x00" + b"\x08\x05\x12\x01n",  # by protoc --encode: id: 5 note: "n"
            ids["tickets"] + b'{"id": 3}',
            None,
            b"plain",
            b"\0\0\0\x27\x0fx",
            ids["orders"] + b"\x0e\x02\x08hi",
        ]
        printed = [
            b'{"id":7,"note":"hi"}', b'{"orders":[{"id":1,"note":null}]}', b'{"id": "5", "note": "n"}', b'{"id": 3}',
            b"null", *values[5:],
        ]  # fmt: skip
        with embedded_broker(self.directory / "data") as bootstrap:
            with Producer(bootstrap_servers=bootstrap) as producer:
                for value in values:
                    producer.send("mixed", value, ids["orders"] + b"\x02\x00", partition=0)
            words = ("console-consumer", "--bootstrap-server", bootstrap, "--topic", "mixed", "--from-beginning")
            registry = ("--exit-at-end", "--schema-registry", self.url)
            environ = {"KT_HOME": str(self.directory / "home")}
            ran = run_kt(*words, *registry, environ=environ)
            assert ran.stdout == b"".join(value + b"\n" for value in printed if value is not None)
            assert ran.status == 1
            assert "3 keys or values were not decoded and stayed as they were:" in ran.err
            assert "mixed-0 offset 5: value not decoded: it does not begin with byte 0 and a schema ID" in ran.err
            assert "mixed-0 offset 6: value not decoded: the registry has no schema 9999" in ran.err
            assert "mixed-0 offset 7: value not decoded: it is not of schema" in ran.err
            ran = run_kt(*words, *registry, "--json", "--max-messages", "1", environ=environ)
            first = json.loads(ran.out.splitlines()[0])
            assert (first["key"], first["value"]) == ('{"id":1,"note":null}', '{"id":7,"note":"hi"}')

    def encoding(self) -> None:
        """Send JSON lines by schema files, which are registered first, and read them."""
        with embedded_broker(self.directory / "data") as bootstrap:

            def produce(topic: str, schema: str, *words: str, stdin: bytes, status: int = 0) -> Ran:
                server = ("--bootstrap-server", bootstrap, "--topic", topic, "--schema-registry", self.url)
                environ = {"KT_HOME": str(self.directory / "home")}
                ran = run_kt(
                    "console-producer", *server, "--value-schema", schema, *words, stdin=stdin, cwd=self.directory,
                    environ=environ,
                )  # fmt: skip
                assert ran.status == status, ran
                return ran

            unknown = produce("orders", "order.avsc", stdin=b'{"id": 1}\n', status=1)
            assert "order.avsc is not a schema of the subject orders-value" in unknown.err
            assert "kt schemas register orders-value --schema order.avsc" in unknown.err
            lines = {
                "orders": b'{"id":1,"note":null}\n',
                "payments": b'{"id": "5", "note": "n"}\n',
                "tickets": b'{"id": 3}\n',
            }
            for topic, schema in (("orders", "order.avsc"), ("payments", "payment.proto"), ("tickets", "ticket.json")):
                produce(topic, schema, "--register-schemas", stdin=lines[topic])
            produce("orders", "orders-value", stdin=lines["orders"])
            produce("orders", "order.avsc", "--register-schemas", "--subject-strategy", "record", stdin=lines["orders"])
            produce("orders", "shop.Order:1", stdin=lines["orders"])
            lines["orders"] *= 4
            assert self.kt("list").out.split() == ["orders-value", "payments-value", "shop.Order", "tickets-value"]
            for topic, expected in lines.items():
                words = ("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--exit-at-end")
                ran = run_kt(
                    "console-consumer", *words, "--schema-registry", self.url, environ={"KT_HOME": str(self.directory)}
                )
                assert (ran.status, ran.stdout) == (0, expected)
