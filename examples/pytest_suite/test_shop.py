"""shop.ship on a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shop import ship


@pytest.fixture
def shop(kafka_topic_factory: Any) -> list[Any]:
    """The topics of one test: orders, parcels, dead letters."""
    return [kafka_topic_factory(name) for name in ("orders-", "parcels-", "dead-letters-")]


def test_each_order_becomes_a_parcel(kafka: Any, shop: list[Any]) -> None:
    orders, parcels, _ = shop
    for item in ("tea", "cups"):
        orders.send(json.dumps({"item": item}), key="alice")
    ship(kafka.bootstrap_servers, *shop, limit=2)
    assert parcels.values() == [b"parcel with tea", b"parcel with cups"]


def test_an_order_that_is_not_json_is_set_aside(kafka: Any, shop: list[Any]) -> None:
    orders, parcels, dead_letters = shop
    orders.send("tea, please", key="bob")
    orders.send('{"item": "cups"}', key="bob")
    ship(kafka.bootstrap_servers, *shop, limit=2)
    assert parcels.values() == [b"parcel with cups"]
    (letter,) = dead_letters.records()
    assert (letter.key, letter.value, dict(letter.headers)["offset"]) == (b"bob", b"tea, please", b"0")


def test_a_parcel_is_sent_although_the_broker_refuses_it_at_first(
    kafka: Any, kafka_faults: Any, shop: list[Any]
) -> None:
    orders, parcels, _ = shop
    orders.send('{"item": "tea"}')
    kafka_faults.add("error", api="Produce", topic=str(parcels), error="NOT_ENOUGH_REPLICAS", for_ms=500)
    ship(kafka.bootstrap_servers, *shop, limit=1)
    assert parcels.values() == [b"parcel with tea"]
