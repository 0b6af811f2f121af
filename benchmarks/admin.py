"""Commands against a large cluster: 10,000 partitions listed and described, 1,000 groups described, by kt and by
Kafka's tools against the same broker.

The broker is the embedded one, so that ten thousand partitions fit beside the rest; both sides ask it the same way.
"""

from __future__ import annotations

import subprocess

from benchmarks import groups, measure, peers

TOPICS, PARTITIONS = 500, 20


def main() -> None:
    """Prints ratios."""
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        make_topics(bootstrap)
        server = ("--bootstrap-server", bootstrap)
        everything = f"{TOPICS * PARTITIONS} partitions"
        _compare(f"topics --describe, {everything}", "topics", ["--describe", *server])
        _compare(f"topics --list, {everything}", "topics", ["--list", *server])
        peers.create_topic(bootstrap, "words", partitions=groups.PARTITIONS)
        groups.commit_all(bootstrap)
        name = f"consumer-groups --describe --all-groups, {groups.GROUPS} groups"
        _compare(name, "consumer-groups", ["--describe", "--all-groups", *server], limit_mib=200)


def make_topics(bootstrap: str) -> None:
    """In a few requests, by the Python API."""
    code = (
        "import sys, kafkatools\n"
        "with kafkatools.Admin(bootstrap_servers=sys.argv[1], request_timeout_ms=120_000) as admin:\n"
        f"    for start in range(0, {TOPICS}, 50):\n"
        f"        names = [f'topic-{{i:04}}' for i in range(start, start + 50)]\n"
        f"        admin.create_topics([kafkatools.NewTopic(name, {PARTITIONS}, 1) for name in names])\n"
    )
    subprocess.run([peers.PYTHON, "-c", code, bootstrap], check=True)


def _compare(name: str, tool: str, arguments: list[str], **limits: int) -> None:
    ours = measure.Work([*peers.KT, tool, *arguments])
    measure.compare(name, ours, measure.Work(peers.java(tool, *arguments)), f"kafka-{tool}", target=3, **limits)


if __name__ == "__main__":
    main()
