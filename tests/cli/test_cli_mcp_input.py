"""kt mcp with input that is no message, and by a user who lacks rights: each has an answer that says why."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.denied_users import GuardedBroker
from support.kt_process import start_kt
from support.mcp_client import mcp_client

from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.processes

START = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
"""The codes of JSON-RPC 2.0, section 5.1."""


def answers(home: pathlib.Path, *lines: bytes, expected: int) -> tuple[list[dict[str, object]], str]:
    """The answers to lines after the start, as many as expected, and stderr."""
    with start_kt(home, "mcp", "--bootstrap-server", "127.0.0.1:1") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(json.dumps(START).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == START["id"]
        process.stdin.write(b"".join(line + b"\n" for line in lines))
        process.stdin.flush()
        found = [json.loads(process.stdout.readline()) for _ in range(expected)]
        process.stdin.close()
        errors = process.stderr.read().decode()
        assert process.wait(30) == 0
    return found, errors


def test_lines_that_are_no_messages_are_answered_and_the_session_goes_on(tmp_path: pathlib.Path) -> None:
    lines = {
        b"hello": (PARSE_ERROR, None),
        b'{"jsonrpc":"2.0","id":5,"method":': (PARSE_ERROR, None),
        bytes(value for value in range(256) if value != 10): (PARSE_ERROR, None),
        b"[" * 100_000: (PARSE_ERROR, None),
        b"[]": (INVALID_REQUEST, None),
        b"null": (INVALID_REQUEST, None),
        b'{"jsonrpc":"2.0","id":7}': (INVALID_REQUEST, 7),
    }
    ping = b'{"jsonrpc":"2.0","id":9,"method":"ping"}'
    found, errors = answers(tmp_path, *lines, b"", b"  ", ping, expected=len(lines) + 1)
    codes = [(answer["error"]["code"], answer["id"]) for answer in found if "error" in answer]  # type: ignore[index]
    assert codes == list(lines.values())
    assert [answer["id"] for answer in found if "result" in answer] == [9]
    assert errors.splitlines()[0] == (
        "Parse error: the line is not JSON; stdin takes a message of the Model Context Protocol each line"
    )
    assert len(errors.splitlines()) == len(lines)


def missing(right: str) -> str:
    return f"Not authorized: the right {right} is missing"


def test_missing_rights_are_errors_of_a_call(guarded: GuardedBroker, tmp_path: pathlib.Path) -> None:
    guarded.topic("orders", b"0")
    user = guarded.user_without("READ TOPIC orders", "ALTER TOPIC orders", "DESCRIBE_CONFIGS CLUSTER")
    config = guarded.config_file(user)
    words = ("--bootstrap-server", guarded.bootstrap, "--command-config", config, "--allow-changes")
    with mcp_client(tmp_path, *words) as client:
        assert client.refused("read_records", topic="orders") == (
            "TOPIC_AUTHORIZATION_FAILED",
            "Not authorized to access topics: [orders]",
        )
        quotas = "[[quotas]]\nuser = 'shop'\nproducer_byte_rate = 1000\n"
        assert client.refused("plan_apply", document=quotas, format="toml") == (
            "CLUSTER_AUTHORIZATION_FAILED",
            missing("DESCRIBE_CONFIGS on the cluster"),
        )
        plan = client.result("plan_apply", document="[topics.orders]\npartitions = 4\n", format="toml")
        assert plan.structured_content["exit_status"] == ExitStatus.FAILED
        (row,) = plan.structured_content["rows"]
        assert (row["action"], row["reason"]) == ("impossible", missing("ALTER on topic orders"))
    assert guarded.kt("topics", "--describe", "--topic", "orders").out.count("Partition:") == 1
