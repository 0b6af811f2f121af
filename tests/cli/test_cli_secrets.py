"""A secret in each way of giving it, and what is shown, written or visible to others of it."""

import contextlib
import http.server
import json
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import kt_process
from support.scripted_broker import ScriptedBroker

from kafkatools import EmbeddedBroker
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

CANARY = "Canary-7f/3+x"
SASL = "security.protocol=SASL_PLAINTEXT\n"
PLAIN = f'{SASL}sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}";\n'  # noqa: E501
OAUTH = f"{SASL}sasl.mechanism=OAUTHBEARER\nsasl.login.retry.backoff.max.ms=1\n"
COMMANDS = {
    "topics": ["--list"],
    "consumer-groups": ["--list"],
    "doctor": [],
    "log-dirs": ["--describe"],
    "console-producer": ["--topic", "orders"],
    "monitor": ["--once"],
}


def ensure_hidden(ran: Ran) -> None:
    for stream in (ran.stdout, ran.stderr):
        assert b"Canary" not in stream and b"7f/3" not in stream and b"7f%2F3" not in stream, stream


@pytest.fixture(scope="module")
def echoing() -> Iterator[str]:
    """A broker that says what it was given."""
    broker = ScriptedBroker()
    mechanisms = ("PLAIN", "OAUTHBEARER")
    broker.answers[ApiKey.SASL_HANDSHAKE] = lambda header, request: {"error_code": 0, "mechanisms": mechanisms}
    broker.answers[ApiKey.SASL_AUTHENTICATE] = lambda header, request: {
        "error_code": 58, "auth_bytes": b"", "session_lifetime": 0,
        "error_message": f"wrong: {bytes(request.auth_bytes).decode()} is {CANARY}, not {CANARY}2",
    }  # fmt: skip
    with broker.in_background():
        yield broker.bootstrap


class _Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        said = {"error": "invalid_client", "error_description": f"{self.headers['Authorization']} or {CANARY}"}
        content = json.dumps(said).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _ways(endpoint: str) -> dict[str, str]:
    credentials = "sasl.oauthbearer.client.credentials.client"
    return {
        "echoed": PLAIN,
        "quoted": PLAIN.replace("config=", "config='").replace(";\n", ";'\n"),
        "quoted flag": PLAIN.replace("required ", "'required ").replace(";\n", ";'\n"),
        "in a url": f"{OAUTH}sasl.oauthbearer.token.endpoint.url=http://u:{CANARY}@{endpoint}/t\n"
        f"{credentials}.id=i\n{credentials}.secret=other-{CANARY}\n",
        "in a url without a scheme": f"{OAUTH}sasl.oauthbearer.token.endpoint.url=ftp://u:{CANARY}@{endpoint}/t\n"
        f"{credentials}.id=i\n{credentials}.secret=s\n",
        "of a client": f"{OAUTH}sasl.oauthbearer.token.endpoint.url=http://{endpoint}/t\n"
        f"{credentials}.id=i\n{credentials}.secret={CANARY}\n",
        "of a command": f"{OAUTH}sasl.oauthbearer.token.command=sh -c 'echo no: password={CANARY} >&2; exit 1'\n",
    }


WAYS = tuple(_ways(""))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_no_command_shows_the_secret_of_its_settings(
    echoing: str, endpoint: str, tmp_path: pathlib.Path, way: str, as_json: bool
) -> None:
    path = tmp_path / "client.properties"
    path.touch(0o600)
    path.write_text(_ways(endpoint)[way])
    for command, arguments in COMMANDS.items():
        line = [command, "--bootstrap-server", echoing, *arguments, "--command-config", str(path)]
        for debug in ("0", "1"):
            ran = run_kt(*line, *(["--json"] if as_json else []), stdin=b"x\n", environ={"KT_DEBUG": debug})
            assert ran.status != 0 and (ran.stderr or command == "doctor"), command
            ensure_hidden(ran)


def test_arguments_that_are_repeated_in_an_error_hide_the_secret() -> None:
    lines = [
        ["configs", "--bootstrap-server", "127.0.0.1:1", "--alter", "--entity-type", "users", "--entity-name", "u",
         "--add-config", f"SCRAM-SHA-999=[password={CANARY}]"],
        ["console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--producer-property",
         f"ssl.keystore.pasword={CANARY}", "--command-property", f"sasl.jaas.config {CANARY}"],
        ["topics", f"--password={CANARY}"],
    ]  # fmt: skip
    for line in lines:
        for more in ([], ["--json"]):
            ran = run_kt(*line, *more, environ={"KT_DEBUG": "1"})
            assert ran.status != 0
            ensure_hidden(ran)


@pytest.mark.slow
def test_the_sandbox_keeps_its_settings_out_of_sight(tmp_path: pathlib.Path) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}";'
    with EmbeddedBroker({"listener.name.plaintext.plain.sasl.jaas.config": jaas}) as broker:
        process = pathlib.Path(f"/proc/{broker.pid}")
        assert CANARY.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    done = kt_process(
        tmp_path, "sandbox", "start", "--nodes", "2", "--set", f"ssl.keystore.password={CANARY}", "--json"
    )
    try:
        assert CANARY.encode() not in done.stdout + done.stderr
        for place in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if place.name.isdigit() and str(tmp_path).encode() in (place / "environ").read_bytes():
                    assert CANARY.encode() not in (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
        assert done.returncode == 0, done.stderr
        for path in tmp_path.rglob("*"):
            assert path.is_socket() or not path.stat().st_mode & 0o077, path
    finally:
        kt_process(tmp_path, "sandbox", "stop")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_a_formatted_directory_is_private_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/data\n"
    )
    scram = f"SCRAM-SHA-256=[name=u,password={CANARY}]"
    ran = run_kt(
        "storage", "format", "--config", str(properties), "--cluster-id", "4L6g3nShT-eMCtK--X86sw", "--add-scram", scram
    )
    assert ran.status == 0, ran.err
    ensure_hidden(ran)
    files = list((tmp_path / "data").rglob("*"))
    assert "bootstrap.checkpoint" in [path.name for path in files]
    assert [path for path in [tmp_path / "data", *files] if path.stat().st_mode & 0o077] == []
    assert os.umask(0) == 0


@pytest.mark.usefixtures("open_umask")
def test_an_undo_file_is_private_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    undo = tmp_path / "undo.json"
    with embedded_broker(tmp_path / "broker") as bootstrap:
        run_kt("topics", "--bootstrap-server", bootstrap, "--create", "--topic", "orders")
        ran = run_kt(
            "configs", "--bootstrap-server", bootstrap, "--alter", "--entity-type", "topics", "--entity-name", "orders",
            "--add-config", "retention.ms=1000", "--undo-file", str(undo),
        )  # fmt: skip
    assert ran.status == 0, ran.err
    assert undo.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_with_a_secret_that_everybody_can_read_is_warned_about(
    echoing: str, tmp_path: pathlib.Path, mode: int, warns: bool
) -> None:
    properties, profiles = tmp_path / "client.properties", tmp_path / "config.toml"
    properties.write_text(PLAIN)
    profiles.write_text(
        f'[profiles.p]\nbootstrap_servers = "{echoing}"\n[profiles.p.settings]\n"ssl.key.password" = "x"\n'
    )
    for path in (properties, profiles):
        path.chmod(mode)
    by_file = run_kt("topics", "--list", "--bootstrap-server", echoing, "--command-config", str(properties))
    assert (f"warning: {properties}: every user of this machine can read sasl.jaas.config" in by_file.err) is warns
    by_profile = run_kt("--profile", "p", "topics", "--list", environ={"KT_CONFIG": str(profiles)})
    assert (f"warning: {profiles}: every user of this machine can read ssl.key.password" in by_profile.err) is warns


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_private_key_that_everybody_can_read_is_warned_about(
    echoing: str, tmp_path: pathlib.Path, mode: int, warns: bool
) -> None:
    key, trusted = tmp_path / "client.p12", tmp_path / "trusted.p12"
    for path in (key, trusted):
        path.touch()
        path.chmod(mode)
    stores = {"ssl.keystore.location": key, "ssl.truststore.location": trusted}
    properties, profiles = tmp_path / "client.properties", tmp_path / "config.toml"
    properties.write_text("".join(f"{name}={path}\n" for name, path in stores.items()))
    settings = "".join(f'"{name}" = "{path}"\n' for name, path in stores.items())
    profiles.write_text(f'[profiles.p]\nbootstrap_servers = "{echoing}"\n[profiles.p.settings]\n{settings}')
    by_file = run_kt("topics", "--list", "--bootstrap-server", echoing, "--command-config", str(properties))
    by_profile = run_kt("--profile", "p", "topics", "--list", environ={"KT_CONFIG": str(profiles)})
    for ran in (by_file, by_profile):
        warnings = [line for line in ran.err.splitlines() if "every user" in line]
        about_key = f"{key}: every user of this machine can read the private key in it; try: chmod 600 {key}"
        assert [line.partition("warning: ")[2] for line in warnings] == [about_key] * warns


def test_a_file_without_a_secret_may_be_read(echoing: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=me\nssl.truststore.location=/x\n")
    path.chmod(0o644)
    assert (
        "every user" not in run_kt("topics", "--list", "--bootstrap-server", echoing, "--command-config", str(path)).err
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("ssl.truststore.location=/x\\u0000y", "ssl.truststore.location /x\0y: embedded null byte"),
        ("ssl.keystore.location=/x\\u0000y", "ssl.keystore.location /x\0y: embedded null byte"),
        (
            "config.providers=f\nconfig.providers.f.class=FileConfigProvider\nclient.id=${f:/x\\u0000y:k}",
            "client.id: a file name of the provider has a null character",
        ),
    ],
)
def test_a_null_character_in_a_file_name_is_a_mistake_in_the_settings(
    tmp_path: pathlib.Path, settings: str, message: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n{settings}\n")
    ran = run_kt("topics", "--list", "--bootstrap-server", "127.0.0.1:9", "--command-config", str(path))
    assert ran.status == ExitStatus.FAILED
    assert ran.err.splitlines()[0].endswith(message)
