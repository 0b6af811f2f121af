"""A program that commits transactions of ten numbers, and aborts each fifth, until its input ends, whatever happens to
the brokers; then it says in JSON which were committed. argv: bootstrap, topic, the number of its partitions."""

import json
import sys
import threading
import time

from confluent_kafka import KafkaException, Producer

bootstrap, topic, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
producer.init_transactions(60)
committed: list[int] = []
aborted: list[int] = []
number = 0


def end(is_commit: bool) -> bool:
    """Whether it was committed."""
    deadline = time.monotonic() + 240
    while True:
        try:
            (producer.commit_transaction if is_commit else producer.abort_transaction)(20)
            return is_commit
        except KafkaException as failure:
            error = failure.args[0]
            if error.txn_requires_abort():
                is_commit = False
            elif not error.retriable() or time.monotonic() > deadline:
                raise


while not ended.is_set():
    numbers = list(range(number, number + 10))
    number += 10
    producer.begin_transaction()
    for each in numbers:
        producer.produce(topic, str(each).encode(), partition=each % partitions)
    (committed if end(number % 50 != 0) else aborted).extend(numbers)
    time.sleep(0.02)
print(json.dumps({"committed": committed, "aborted": aborted}))
