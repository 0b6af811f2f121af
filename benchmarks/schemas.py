"""console-consumer --schema-registry on 500,000 Avro records of six fields: records per second, and the ratios against
kcat and against a Python program with Confluent's client and its AvroDeserializer.

KT_BENCH_KCAT_AVRO names a kcat that was built with libserdes, which Debian's lacks. KT_BENCH_CONFLUENT_PYTHON names a
Python with `confluent-kafka[avro,schemaregistry]`, which is no dependency of kt. Without them only our own rate is
measured. All print a JSON object a record, and their outputs must hold the same objects.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import pathlib
import random
import statistics
import struct
from typing import Any

import fastavro

from benchmarks import measure, peers
from kafkatools import Producer
from tests.support.schema_registry import Answer, Request, serving

COUNT = int(os.environ.get("KT_BENCH_RECORDS", "500000"))
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "city", "type": ["null", "string"]},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT", "DONE"]}},
    ],
}
SCHEMA_ID = 7
TARGET = 500_000
PEER = """
import json, sys
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

bootstrap, registry, topic, count = *sys.argv[1:4], int(sys.argv[4])
decode = AvroDeserializer(SchemaRegistryClient({"url": registry}))
place = SerializationContext(topic, MessageField.VALUE)
consumer = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": "peer", "auto.offset.reset": "earliest", "enable.auto.commit": False}
)
consumer.subscribe([topic])
while count:
    for message in consumer.consume(min(count, 10_000), 1.0):
        sys.stdout.write(json.dumps(decode(message.value(), place)) + "\\n")
        count -= 1
consumer.close()
"""


def main() -> None:
    """Prints the rate from start to end of the command, and the ratio."""
    with (
        peers.scratch() as directory,
        peers.embedded_broker(directory) as bootstrap,
        serving(lambda request: answer(request)) as registry,
    ):
        peers.create_topic(bootstrap, "orders")
        write(bootstrap)
        ours = measure.Work(
            [
                *peers.KT, "console-consumer", "--bootstrap-server", bootstrap, "--topic", "orders",
                "--from-beginning", "--exit-at-end", "--schema-registry", registry.url,
            ],
            stdout=directory / "ours",
            env={"KT_HOME": str(directory / "home")},
        )  # fmt: skip
        rate(ours)
        program = directory / "peer.py"
        program.write_text(PEER)
        commands = {
            "kcat -s value=avro": [
                os.environ.get("KT_BENCH_KCAT_AVRO"), "-C", "-q", "-b", bootstrap, "-t", "orders", "-o", "beginning",
                "-e", "-s", "value=avro", "-r", registry.url,
            ],
            "confluent-kafka, AvroDeserializer": [
                os.environ.get("KT_BENCH_CONFLUENT_PYTHON"), str(program), bootstrap, registry.url, "orders",
                str(COUNT),
            ],
        }  # fmt: skip
        for peer_name, (program_path, *arguments) in commands.items():
            if program_path is not None:
                peer = measure.Work([program_path, *arguments], stdout=directory / "peer")
                name = f"console-consumer --schema-registry, {COUNT:,} Avro records"
                measure.compare(name, ours, peer, peer_name, target=1.0, rounds=3)
                ensure_equal(directory / "ours", directory / "peer")


def answer(request: Request) -> Answer:
    """The schema by its ID, as a registry answers."""
    if request.path.split("?")[0] == f"/schemas/ids/{SCHEMA_ID}":
        return Answer(200, json.dumps({"schema": json.dumps(SCHEMA)}))
    return Answer(404, json.dumps({"error_code": 40401, "message": "not found"}))


def write(bootstrap: str) -> None:
    """Records in Confluent's wire format: a zero byte, the ID of the schema and the encoded record."""
    schema, source = fastavro.parse_schema(SCHEMA), random.Random(5)
    prefix = struct.pack(">bI", 0, SCHEMA_ID)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(COUNT):
            data = io.BytesIO()
            fastavro.schemaless_writer(data, schema, row(number, source))
            producer.send("orders", prefix + data.getvalue())


def row(number: int, source: random.Random) -> dict[str, Any]:
    """One order."""
    return {
        "id": number,
        "user": f"u{source.randrange(100_000)}",
        "amount": source.randrange(10**6) / 100,
        "city": source.choice(("Berlin", "Lisbon", "Nairobi", None)),
        "paid": source.random() < 0.5,
        "state": source.choice(("NEW", "SENT", "DONE")),
    }


def rate(ours: measure.Work) -> None:
    """Records per second of wall and of processor time, the start of the command included."""
    measure.run(ours)
    runs = [measure.run(ours) for _ in range(measure.ROUNDS)]
    by_wall = COUNT / statistics.median(run.wall_s for run in runs)
    by_cpu = COUNT / statistics.median(run.cpu_s for run in runs)
    measure.report(
        f"console-consumer --schema-registry, {COUNT:,} Avro records of six fields", records_per_s=round(by_wall),
        records_per_s_of_processor_time=round(by_cpu), target=TARGET, reached=by_wall >= TARGET, rounds=len(runs),
    )  # fmt: skip


def ensure_equal(ours: pathlib.Path, peer: pathlib.Path) -> None:
    """Both must have printed the same objects, in the same order."""
    with ours.open("rb") as our_lines, peer.open("rb") as peer_lines:
        for number, (one, other) in enumerate(itertools.zip_longest(our_lines, peer_lines)):
            if one is None or other is None or plain(json.loads(one)) != plain(json.loads(other)):
                raise SystemExit(f"benchmark: line {number} differs: {one!r}, {other!r}")


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """The values without the type names that Avro's own JSON has for unions, as ours and that of kcat."""
    return {name: next(iter(value.values())) if isinstance(value, dict) else value for name, value in record.items()}


if __name__ == "__main__":
    main()
