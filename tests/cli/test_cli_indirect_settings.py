"""Passwords that stand elsewhere than in a properties file or a profile: kt finds them, and shows them nowhere."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.kt_process import KT

from kafkatools import EmbeddedBroker, SecurityOptions

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = 'pass"word\\canary'
JAAS = f'{MODULE} required username="alice" password="%s";'
SETTINGS = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(security=SecurityOptions(sasl="plain", users={"alice": SECRET})) as broker:
        yield broker.bootstrap


@pytest.fixture
def secret_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    return path


def properties(directory: pathlib.Path, reference: str) -> str:
    path = directory / "client.properties"
    path.write_text(f"{SETTINGS}sasl.jaas.config={JAAS % reference}\n")  # others may read it: it holds no secret
    return str(path)


def list_topics(bootstrap: str, file: str, environ: dict[str, str] | None = None) -> Ran:
    ran = run_kt("topics", "--list", "--bootstrap-server", bootstrap, "--command-config", file, environ=environ)
    assert "canary" not in ran.out + ran.err
    return ran


@pytest.mark.parametrize("reference", ["${file:%s}", "${command:cat %s}", "${env:PASSWORD}"])
def test_password_of_a_reference(bootstrap: str, secret_file: pathlib.Path, reference: str) -> None:
    file = properties(secret_file.parent, reference.replace("%s", str(secret_file)))
    escaped = SECRET.replace("\\", "\\\\").replace('"', '\\"')  # Kafka's providers insert the value as it is
    ran = list_topics(bootstrap, file, {"PASSWORD": escaped})
    assert (ran.status, ran.err) == (0, "")


def test_property_of_the_command_line(bootstrap: str, secret_file: pathlib.Path) -> None:
    login = JAAS % f"${{file:{secret_file}}}"
    settings = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}")
    pairs = [word for setting in settings for word in ("--command-property", setting)]
    ran = run_kt("console-producer", "--topic", "t", "--bootstrap-server", bootstrap, *pairs, stdin=b"one\n")
    assert (ran.status, ran.err) == (0, "1 sent, 0 failed\n")
    pairs[-1] = pairs[-1].replace(str(secret_file), "/no/such")
    ran = run_kt("console-producer", "--topic", "t", "--bootstrap-server", bootstrap, *pairs, stdin=b"one\n")
    assert ran.status == 1 and "--command-property: sasl.jaas.config: /no/such cannot be read" in ran.err


def test_reference_without_a_value_is_one_line(bootstrap: str, tmp_path: pathlib.Path) -> None:
    file = properties(tmp_path, "${env:PASSWORD}")
    ran = list_topics(bootstrap, file)
    assert (ran.status, ran.out) == (1, "")
    reason = f"{file}: sasl.jaas.config: the environment variable PASSWORD is not set"
    assert ran.err == f"Error while executing topic command : {reason}\n"


def test_wrong_password_of_a_reference_is_not_shown(bootstrap: str, tmp_path: pathlib.Path) -> None:
    ran = list_topics(bootstrap, properties(tmp_path, "${env:PASSWORD}"), {"PASSWORD": "wrong-canary"})
    assert ran.status == 1 and "Authentication failed: Invalid username or password" in ran.err


@pytest.mark.parametrize("table", ['{ file = "password" }', '{ command = "cat %s" }'])
def test_settings_of_a_profile(bootstrap: str, secret_file: pathlib.Path, table: str) -> None:
    escaped = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    secret_file.write_text(JAAS % escaped)
    config = secret_file.parent / "config.toml"
    config.write_text(
        f'[profiles.p]\nbootstrap_servers = "{bootstrap}"\n[profiles.p.settings]\n'
        '"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
        f'"sasl.jaas.config" = {table.replace("%s", str(secret_file))}\n'
    )
    ran = run_kt("--profile", "p", "topics", "--list", environ={"KT_CONFIG": str(config)})
    assert (ran.status, ran.err) == (0, "")


@pytest.mark.parametrize(
    "setting", ["'client.id' = { command = 'touch ran' }", "'client.id' = '${command:touch ran}'",
    "'sasl.oauthbearer.token.command' = 'touch ran'"],
)  # fmt: skip
def test_file_of_a_project_runs_no_program(tmp_path: pathlib.Path, setting: str) -> None:
    project = tmp_path / ".kt.toml"
    project.write_text(f"default = 'p'\n[profiles.p]\nbootstrap_servers = 'b:1'\n[profiles.p.settings]\n{setting}\n")
    ran = run_kt("topics", "--list", cwd=tmp_path)
    assert ran.status == 1 and f"{project}: " in ran.err
    assert "names a program, which a project's file may not" in ran.err.splitlines()[0]
    assert "Define the profile in your own file" in ran.err.splitlines()[1]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{ vault = 'x' }", "must be a string, a number, true or false, or one of"),
        ("{ env = 'A', file = 'b' }", "must be a string, a number, true or false, or one of"),
        ("{ command = '${X}' }", "may not contain }"),
    ],
)
def test_table_that_is_no_reference(tmp_path: pathlib.Path, table: str, message: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f"[profiles.p]\nbootstrap_servers = 'localhost:1'\n[profiles.p.settings]\n'client.id' = {table}\n"
    )
    ran = run_kt("--profile", "p", "topics", "--list", environ={"KT_CONFIG": str(config)})
    assert ran.status == 2 and f"{config}: profiles.p.settings.client.id" in ran.err and message in ran.err


def test_prompt_needs_a_terminal(bootstrap: str, tmp_path: pathlib.Path) -> None:
    ran = list_topics(bootstrap, properties(tmp_path, "${prompt:Password please}"))
    assert (ran.status, ran.out) == (1, "")
    assert "there is no terminal to prompt on for ${prompt:Password please}" in ran.err


_WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def on_terminal(*words: str, answer: str) -> tuple[int, str]:
    """Run kt with a terminal of its own, answer its first prompt; return its status and all that the terminal shows."""
    environ = {**os.environ, "KT_SANDBOX": "off", "KT_JOURNAL": "off", "TERM": "dumb"}
    terminal, side = pty.openpty()
    command = [sys.executable, "-c", _WITH_TERMINAL, *KT, *words]
    child = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environ, start_new_session=True)
    os.close(side)
    shown, is_answered = b"", False
    with contextlib.suppress(OSError):  # the terminal of a child that has ended
        while data := os.read(terminal, 4096):
            shown += data
            if not is_answered and shown.endswith(b": "):
                is_answered = True
                os.write(terminal, answer.encode() + b"\n")
    os.close(terminal)
    return child.wait(60), shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "status"), [(SECRET, 0), ("wrong-canary", 1), ("", 1)])
def test_prompt_on_a_terminal(bootstrap: str, tmp_path: pathlib.Path, answer: str, status: int) -> None:
    file = properties(tmp_path, "${prompt:Password please}")
    where = ("--bootstrap-server", bootstrap, "--command-config", file)
    found, shown = on_terminal("topics", *where, "--list", answer=answer)
    assert found == status, shown
    assert shown.startswith("Password please: ") and shown.count("Password please") <= 2
    assert "canary" not in shown
    assert answer or "no password was typed" in shown
