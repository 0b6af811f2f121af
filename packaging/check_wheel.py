"""Check an installed wheel: the kernels run compiled, and records go through a broker, without a network, and back.

`check_wheel.py --pure` expects plain Python instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile


def main(arguments: list[str]) -> None:
    """Exit with an error when the installation is not as expected."""
    expects_compiled = "--pure" not in arguments
    program = f"{sysconfig.get_path('scripts')}/kt"
    row = json.loads(subprocess.run([program, "version", "--json"], capture_output=True, check=True).stdout)
    compiled = row["kernels"] if expects_compiled else 0
    if row["compiled_kernels"] != compiled:
        raise SystemExit(f"{row['compiled_kernels']} of {row['kernels']} kernels are compiled, expected {compiled}")
    from kafkatools.core.records.kernel import COMPILED

    if expects_compiled != COMPILED:
        raise SystemExit("the record kernels do not run in the form that kt version reports")
    send_and_receive()
    print(f"kafkatools {row['version']}: {compiled} of {row['kernels']} kernels compiled, works")


def send_and_receive() -> None:
    """Send a record of each codec to an embedded broker and read all of them."""
    import kafkatools

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    with tempfile.TemporaryDirectory() as directory, kafkatools.EmbeddedBroker(directory=directory) as broker:
        for codec in codecs:
            with kafkatools.Producer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
                producer.send("checked", codec.encode()).result()
        settings = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", "group_id": "check"}
        with kafkatools.Consumer(**settings) as consumer:
            consumer.subscribe(["checked"])
            received: list[bytes | None] = []
            while len(received) < len(codecs):
                records = consumer.poll(10)
                received += [record.value for record in records]
                if any(hash(record) != hash(tuple(record)) for record in records):
                    raise SystemExit("the hash of a record is not that of its fields")
    if received != [codec.encode() for codec in codecs]:
        raise SystemExit(f"sent {codecs}, received {received}")


if __name__ == "__main__":
    main(sys.argv[1:])
