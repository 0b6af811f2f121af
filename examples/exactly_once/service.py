"""Bill each order once: one transaction for each batch of orders."""

from __future__ import annotations

import argparse
import json
import signal
from types import FrameType

import kafkatools
from kafkatools.errors import WakeupError


def invoice_of(order: bytes) -> bytes:
    """The invoice of an order: the work of the service."""
    fields = json.loads(order)
    return json.dumps({"order": fields["id"], "total": fields["count"] * fields["price"]}).encode()


def run(bootstrap_servers: str, name: str) -> None:
    """Bill orders until SIGINT or SIGTERM."""
    reading = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "invoicing",
        "group.instance.id": name,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.records": 100,
    }
    writing = {"bootstrap.servers": bootstrap_servers, "transactional.id": name}
    with kafkatools.Consumer(reading) as consumer, kafkatools.Producer(writing) as producer:

        def stop(signum: int, frame: FrameType | None) -> None:
            consumer.wakeup()  # the next poll ends, a transaction that runs does not

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        producer.init_transactions()  # before the first poll, which waits for offsets in an open transaction
        consumer.subscribe(["orders"])
        while True:
            try:
                orders = consumer.poll(timeout_ms=60_000)
            except WakeupError:
                return
            if not orders:
                continue
            with producer.transaction():
                for order in orders:
                    producer.send("invoices", invoice_of(order.value), key=order.key)
                producer.send_offsets_to_transaction(orders.next_offsets(), consumer.group_metadata())
            print(f"{len(orders)} orders billed", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kafka", default="localhost:9092")
    parser.add_argument("--name", default="billing-0")
    options = parser.parse_args()
    run(options.kafka, options.name)
