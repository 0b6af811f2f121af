"""`kt mcp --allow-changes` with the real client: plans, tokens, and refused tokens."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from admin_tools import send
from support.embedded import embedded_broker
from support.kt import run_kt
from support.manual_clock import ManualClock
from support.mcp_client import McpClient, mcp_client
from support.scripted_broker import ScriptedBroker

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.mcp.calls import Calls
from kafkatools.tools.mcp.changes import Changes
from kafkatools.tools.mcp.command_runs import Connection, Runner

pytestmark = pytest.mark.processes

CANARY = "Canary-7f/3+x"
SIMILAR = (
    "describe_topics", "list_groups", "group_timeline", "search_records", "list_transactions", "describe_producers",
    "find_hanging_transactions", "describe_quorum", "describe_features", "list_schemas", "get_offsets",
)  # fmt: skip
"""Tools whose command reports errors as another tool's does: they are left out, as each call starts a process."""


def kt(bootstrap: str, *words: str) -> list[dict[str, Any]]:
    """The rows of a command with --json."""
    ran = run_kt(words[0], "--bootstrap-server", bootstrap, *words[1:], "--json")
    assert ran.status == ExitStatus.OK, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def retention(bootstrap: str, topic: str) -> str | None:
    """The retention.ms of a topic, None if it has none of its own."""
    (row,) = kt(bootstrap, "configs", "--describe", "--topic", topic)
    values: dict[str, str] = {config["name"]: config["value"] for config in row["configs"]}
    return values.get("retention.ms")


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offsets of a group by partition."""
    (row,) = kt(bootstrap, "consumer-groups", "--describe", "--group", group)
    return {partition["partition"]: partition["offset"] for partition in row["partitions"]}


@pytest.fixture(scope="module")
def client(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpClient]:
    send(bootstrap, "orders", 2, [])
    with mcp_client(tmp_path_factory.mktemp("mcp"), "--bootstrap-server", bootstrap, "--allow-changes") as client:
        yield client


def test_plans_are_marked_as_reading_and_carry_out_as_destructive(client: McpClient) -> None:
    annotations = {tool.name: tool.annotations for tool in client.tools()}
    destructive = {name for name, annotation in annotations.items() if annotation and annotation.destructive_hint}
    assert destructive == {"carry_out"}
    assert {name for name in annotations if name.startswith("plan_")} == {
        "plan_apply", "plan_create_topic", "plan_alter_configs", "plan_reset_offsets",
    }  # fmt: skip
    assert "a person has approved" in client.start.instructions


def test_a_topic_is_created_by_its_token_and_only_once(client: McpClient, bootstrap: str) -> None:
    plan = client.call("plan_create_topic", topic="new", partitions=3, configs={"retention.ms": "7d"})
    assert plan["rows"] == [{"topic": "new", "created": False, "partition_count": 3, "replication_factor": 1}]
    assert plan["command"] == "kt topics --create --topic=new --partitions=3 --config=retention.ms=7d"
    assert "new" not in [row["topic"] for row in kt(bootstrap, "topics", "--list")]

    done = client.call("carry_out", token=plan["token"])
    assert done["rows"][0]["created"] is True and done["exit_status"] == 0
    assert retention(bootstrap, "new") == str(7 * 86_400_000)
    used = client.refused("carry_out", token=plan["token"])
    assert used == ("PLAN", "There is no plan with this token: it was used, dropped, or made by another server")


def test_settings_change_only_from_the_planned_state(client: McpClient, bootstrap: str) -> None:
    wanted = {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    change = {"entity_type": "topics", "entity_name": "orders", "set": wanted}
    plan, other = client.call("plan_alter_configs", **change), client.call("plan_alter_configs", **change)
    assert {row["name"]: (row["old"], row["new"]) for row in plan["rows"][0]["changes"]} == {
        "retention.ms": (None, "86400000"),
        "cleanup.policy": (None, "compact,delete"),
    }
    client.call("carry_out", token=plan["token"])
    assert retention(bootstrap, "orders") == "86400000"

    kt(bootstrap, "configs", "--alter", "--topic", "orders", "--add-config", "retention.ms=1000")
    result = client.result("carry_out", token=other["token"])  # its rows are the new dry run
    changed = result.structured_content
    assert result.is_error and changed["exit_status"] is None
    assert changed["errors"][0]["kind"] == "CHANGED" and changed["rows"][0]["altered"] is False
    assert retention(bootstrap, "orders") == "1000"
    nothing = client.call(
        "plan_alter_configs", entity_type="topics", entity_name="orders", set={"retention.ms": "1000"}
    )
    assert nothing["token"] is None and nothing["notes"][-1] == {"note": "Nothing would change, so there is no token."}


def test_the_planned_offsets_are_committed(client: McpClient, bootstrap: str) -> None:
    send(bootstrap, "events", 2, [(i % 2, 1_700_000_000_000 + i) for i in range(10)])
    read = ("--topic", "events", "--from-beginning", "--exit-at-end", "--group", "billing")
    assert run_kt("console-consumer", "--bootstrap-server", bootstrap, *read).status == ExitStatus.OK
    assert committed(bootstrap, "billing") == {0: 5, 1: 5}
    back = client.call("plan_reset_offsets", group="billing", to="offset", value="2", topics=["events"])
    assert {row["partition"]: (row["offset"], row["current_offset"]) for row in back["rows"]} == {0: (2, 5), 1: (2, 5)}
    late = client.call("plan_reset_offsets", group="billing", to="earliest")
    client.call("carry_out", token=back["token"])
    assert committed(bootstrap, "billing") == {0: 2, 1: 2}
    assert client.refused("carry_out", token=late["token"])[0] == "CHANGED"
    assert committed(bootstrap, "billing") == {0: 2, 1: 2}

    end = client.call("plan_reset_offsets", group="billing", to="latest")
    run_kt(
        "console-producer", "--bootstrap-server", bootstrap, "--topic", "events", "--json",
        stdin=b'{"value":"late","partition":0}\n',
    )  # fmt: skip
    client.call("carry_out", token=end["token"])
    assert committed(bootstrap, "billing") == {0: 5, 1: 5}, "the offsets of the plan, not those of a new end"


def test_a_document_is_applied(client: McpClient, bootstrap: str) -> None:
    document = '[topics.applied]\npartitions = 2\n[[quotas]]\nuser = "bob"\nproducer_byte_rate = "1KiB"\n'
    plan = client.call("plan_apply", document=document, format="toml")
    assert [(row["kind"], row["action"], row["outcome"]) for row in plan["rows"]] == [
        ("topic", "create", "planned"), ("quotas", "create", "planned"),
    ]  # fmt: skip
    assert plan["command"] == "kt apply document.toml --yes"
    done = client.call("carry_out", token=plan["token"])
    assert [row["outcome"] for row in done["rows"]] == ["done", "done"]
    assert client.call("plan_apply", document=document, format="toml")["token"] is None

    impossible = client.call("plan_apply", document="topics: {applied: {partitions: 1}}", format="yaml")
    assert impossible["token"] is None and impossible["rows"][0]["action"] == "impossible"
    kind, message = client.refused("plan_apply", document="topics: [", format="yaml")
    assert kind == "CONFIG_ERROR" and message.startswith("document.yaml, line "), "no directory of this machine"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("plan_apply", {"document": "[users.x]", "format": "toml"}, "must not have 'users'"),
        ("plan_apply", {"document": "{}\n---\nusers: {}", "format": "yaml"}, "must not have 'users'"),
        ("plan_apply", {"document": "x" * 300_000, "format": "toml"}, "at most 262144 characters"),
        ("plan_apply", {"document": "", "format": "json"}, "'format' must be a string: toml, yaml, not another text"),
        ("plan_alter_configs", {"entity_type": "topics", "entity_name": "t"}, "'set' and 'remove' is needed"),
        (
            "plan_alter_configs",
            {"entity_type": "brokers", "default": True, "set": {"ssl.key.password": CANARY}},
            "ssl.key.password may hold a secret",
        ),
        (
            "plan_alter_configs",
            {"entity_type": "topics", "entity_name": "t", "set": {"a\nb": "1"}},
            "is not the name of a setting",
        ),
        ("plan_alter_configs", {"entity_type": "users", "set": {"a": "1"}}, "topics, brokers, groups"),
        ("plan_alter_configs", {"entity_type": "topics", "set": {"a": "1"}}, "either the argument 'entity_name' or"),
        ("plan_reset_offsets", {"group": "g", "to": "offset"}, "'to' offset needs the argument 'value'"),
        ("plan_reset_offsets", {"group": "g", "to": "latest", "value": "1"}, "'to' latest takes no argument 'value'"),
        ("carry_out", {}, "The argument 'token' is missing"),
    ],
)
def test_a_wrong_plan_names_the_argument(
    client: McpClient, tool: str, arguments: dict[str, object], expected: str
) -> None:
    kind, message = client.refused(tool, **arguments)
    assert kind == "ARGUMENT" and expected in message and CANARY not in message


def calls(bootstrap: str, clock: ManualClock, home: pathlib.Path) -> Calls:
    """The calls of a server that may change this cluster, without the protocol."""
    runner = Runner({"KT_SANDBOX": "off", "KT_HOME": str(home)}, 60)
    connection = Connection(cluster=(f"--bootstrap-server={bootstrap}",))
    return Calls((), runner, connection, Changes(runner, connection, clock, lambda: None))


def test_a_token_expires(bootstrap: str, tmp_path: pathlib.Path) -> None:
    clock = ManualClock()

    async def plan_and_wait() -> tuple[object, object]:
        tools = calls(bootstrap, clock, tmp_path)
        plan = await tools.call("plan_create_topic", {"topic": "too-late"})
        clock.advance_ms(300_000)
        late = await tools.call("carry_out", {"token": plan["token"]})
        return plan["token"], late["errors"]

    token, errors = anyio.run(plan_and_wait)
    assert token and errors == [{"kind": "PLAN", "message": "The token has expired: it was valid for 300 s"}]
    assert "too-late" not in [row["topic"] for row in kt(bootstrap, "topics", "--list")]


def test_a_token_is_for_the_cluster_of_the_plan(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "one") as bootstrap:

        async def plan() -> tuple[Calls, str]:
            tools = calls(bootstrap, ManualClock(), tmp_path)
            return tools, str((await tools.call("plan_create_topic", {"topic": "t"}))["token"])

        tools, token = anyio.run(plan)
    with embedded_broker(tmp_path / "two", int(bootstrap.rpartition(":")[2])):
        content = anyio.run(tools.call, "carry_out", {"token": token})
        (error,) = content["errors"]  # type: ignore[misc]
        assert error["kind"] == "PLAN" and "The plan is for the cluster" in error["message"]
        assert kt(bootstrap, "topics", "--list") == []


def profile(directory: pathlib.Path, bootstrap: str, *, protected: bool) -> dict[str, str]:
    """Write a profile `prod` and return the environment that names its file."""
    path = directory / "config.toml"
    path.write_text(f'[profiles.prod]\nbootstrap_servers = "{bootstrap}"\nprotected = {str(protected).lower()}\n')
    return {"KT_CONFIG": str(path)}


def test_a_protected_profile_allows_no_changes(bootstrap: str, tmp_path: pathlib.Path) -> None:
    environ = profile(tmp_path, bootstrap, protected=True)
    ran = run_kt("--profile", "prod", "--confirm", "prod", "mcp", "--allow-changes", environ=environ)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.startswith("The profile 'prod' is protected, so kt mcp makes no changes with it\n")

    profile(tmp_path, bootstrap, protected=False)
    with mcp_client(tmp_path, "--allow-changes", before=("--profile", "prod"), environ=environ) as client:
        token = client.call("plan_create_topic", topic="protected")["token"]
        profile(tmp_path, bootstrap, protected=True)
        assert "is protected" in client.refused("carry_out", token=token)[1]
        assert "is protected" in client.refused("plan_create_topic", topic="protected")[1]
        assert client.call("list_topics")["exit_status"] == 0, "reading goes on"
    assert "protected" not in [row["topic"] for row in kt(bootstrap, "topics", "--list")]


def test_no_answer_contains_a_secret(tmp_path: pathlib.Path) -> None:
    broker = ScriptedBroker()
    broker.answers[ApiKey.SASL_HANDSHAKE] = lambda header, request: {"error_code": 0, "mechanisms": ("PLAIN",)}
    broker.answers[ApiKey.SASL_AUTHENTICATE] = lambda header, request: {
        "error_code": 58, "auth_bytes": b"", "session_lifetime": 0, "error_message": f"{CANARY} is not {CANARY}2",
    }  # fmt: skip
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}";'
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
        "basic.auth.user.info": f"u:{CANARY}",
    }
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    registry = f"http://u:{CANARY.replace('/', '%2F')}@127.0.0.1:9"
    options = ("--command-config", "client.properties", "--schema-registry", registry, "--allow-changes")
    told = {
        "topic": CANARY, "kind": "topic", "name": CANARY, "entity_type": "topics", "transactional_id": CANARY,
        "partition": 0, "grep": CANARY, "sql": f"SELECT '{CANARY}' AS a FROM orders", "subject": CANARY,
        "command": CANARY, "document": CANARY, "format": "toml", "entity_name": CANARY, "set": {"a": CANARY},
        "group": CANARY, "to": "datetime", "value": CANARY, "token": CANARY, "broker": 1,
    }  # fmt: skip
    with (
        broker.in_background(),
        mcp_client(tmp_path, "--bootstrap-server", broker.bootstrap, *options) as client,
    ):
        for tool in client.tools():
            if tool.name in SIMILAR:
                continue
            names = [name for name in told if name in tool.input_schema["properties"]]
            text = client.result(tool.name, **{name: told[name] for name in names}).model_dump_json()
            assert "Canary" not in text and "7f/3" not in text and "7f%2F3" not in text, (tool.name, text)
        assert "[hidden]" in client.result("list_topics").model_dump_json()
        assert "Canary" not in client.stderr()
