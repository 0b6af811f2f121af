"""A program that writes numbers to a topic, one every few ms, until its input ends, whatever happens to the brokers;
then it says in JSON which were acknowledged and what went wrong.

Arguments: the library, the brokers, the topic, the number of its partitions. acks=all and idempotent, with time enough
for a broker to be replaced.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable

LIBRARY, BOOTSTRAP, TOPIC, PARTITIONS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PAUSE_S = 0.004
DELIVERY_MS = 60_000
ENDED = threading.Event()
acked: list[int] = []
errors: list[str] = []


def note(number: int, error: object) -> None:
    if error is None:
        acked.append(number)
    else:
        errors.append(f"{number}: {error}")


def with_confluent_kafka() -> int:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "message.timeout.ms": DELIVERY_MS}
    producer = Producer({**settings, "log_level": 0})

    def send(number: int) -> None:
        producer.produce(
            TOPIC, str(number), partition=number % PARTITIONS, on_delivery=lambda error, _: note(number, error)
        )
        producer.poll(0)

    count = steadily(send)
    producer.flush(DELIVERY_MS / 1000)
    return count


def with_kafka_python() -> int:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=BOOTSTRAP, enable_idempotence=True, acks="all", delivery_timeout_ms=DELIVERY_MS
    )

    def send(number: int) -> None:
        future = producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        future.add_callback(lambda _: note(number, None))
        future.add_errback(lambda error: note(number, error))

    count = steadily(send)
    producer.close(DELIVERY_MS / 1000)
    return count


def with_kafkatools() -> int:
    import kafkatools

    with kafkatools.Producer(bootstrap_servers=BOOTSTRAP, delivery_timeout_ms=DELIVERY_MS) as producer:

        def send(number: int) -> None:
            producer.send(
                TOPIC,
                str(number).encode(),
                partition=number % PARTITIONS,
                callback=lambda _, error: note(number, error),
            )

        return steadily(send)


def steadily(send: Callable[[int], None]) -> int:
    number = 0
    while not ENDED.is_set():
        send(number)
        number += 1
        time.sleep(PAUSE_S)
    return number


async def with_aiokafka() -> int:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True, request_timeout_ms=DELIVERY_MS)
    await producer.start()
    waiting = []
    number = 0

    async def acknowledged(number: int, future: "asyncio.Future[object]") -> None:
        try:
            await future
            note(number, None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            note(number, repr(error))

    while not ENDED.is_set():
        future = await producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        waiting.append(asyncio.ensure_future(acknowledged(number, future)))
        number += 1
        await asyncio.sleep(PAUSE_S)
    await asyncio.gather(*waiting)
    await producer.stop()
    return number


def main() -> None:
    threading.Thread(target=lambda: (sys.stdin.read(), ENDED.set()), daemon=True).start()
    sent = asyncio.run(with_aiokafka()) if LIBRARY == "aiokafka" else globals()[f"with_{LIBRARY}"]()
    print(json.dumps({"sent": sent, "acked": sorted(acked), "errors": errors}))


main()
