"""The program under test: a parcel for each order."""

from __future__ import annotations

import json
import math

import kafkatools


def ship(bootstrap_servers: str, orders: str, parcels: str, dead_letters: str, *, limit: float = math.inf) -> None:
    """Send a parcel for each order, until `limit` orders were read."""
    reading = {"bootstrap.servers": bootstrap_servers, "group.id": "shipping", "auto.offset.reset": "earliest"}
    done = 0
    with (
        kafkatools.Consumer({**reading, "enable.auto.commit": False}) as consumer,
        kafkatools.Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        consumer.subscribe([orders])
        while done < limit:
            records = consumer.poll(timeout_ms=1000)
            sent = []
            for record in records:
                try:
                    order = json.loads(record.value)
                except ValueError as error:
                    headers = [("error", str(error).encode()), ("offset", b"%d" % record.offset)]
                    sent.append(producer.send(dead_letters, record.value, key=record.key, headers=headers))
                    continue
                sent.append(producer.send(parcels, f"parcel with {order['item']}".encode(), key=record.key))
            for future in sent:
                future.result()  # before the commit: a parcel that was not sent is sent by the next run
            if records:
                consumer.commit_sync()
                done += len(records)
