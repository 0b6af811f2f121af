"""Plugins that fail in each of their functions: one line names the distribution, the entry point and the exception."""

from __future__ import annotations

import itertools
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from support.installed_plugin import install
from support.kt import run_kt

import kafkatools
from kafkatools.core.consumer.deserializers import deserializer, object_deserializer
from kafkatools.core.errors import KafkaError, PluginError, SerializationError
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.decoders import value_decoder
from kafkatools.core.net.security.plugin_login import find_plugin
from kafkatools.core.producer.serializers import serializer_for
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.plugin_store import PluginStore
from kafkatools.tools.backup.store import read_object
from kafkatools.tools.lines.formatters import make_formatter

NUMBERS = itertools.count()
HEADER = """
import kafkatools.errors
from kafkatools.plugins import *

def fail(*arguments):
    raise ValueError("oops\\nsecond line")

def leave(*arguments):
    raise SystemExit(7)

def give(result):
    return lambda *arguments: result
"""


class Installed:
    """Installs the object of an expression as the plugin `bad` of a group."""

    def __init__(self, directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory, self._monkeypatch = directory, monkeypatch

    def __call__(self, group: str, expression: str, text: str = "") -> str:
        """Returns the regular expression of the plugin's name in messages."""
        module = f"failing_plugin_{next(NUMBERS)}"
        place = self._directory / module
        install(
            place,
            "acme-tools",
            {f"kafkatools.{group}/bad": f"{module}:BAD"},
            {module: f"{HEADER}{text}\nBAD = {expression}\n"},
        )
        self._monkeypatch.syspath_prepend(str(place))
        return rf"plugin bad of acme-tools 1\.0 \(kafkatools\.{group}: {module}:BAD\)"


@pytest.fixture
def installed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(tmp_path, monkeypatch)


RAISED = {"fail": r" failed: ValueError: oops$", "leave": r" failed: SystemExit: 7$"}


@pytest.mark.parametrize(("function", "reason"), RAISED.items())
@pytest.mark.parametrize("kind", ["formatter", "line", "decoder", "deserialize", "text", "serialize", "storage"])
def test_an_exception_of_a_function_names_the_plugin(
    installed: Installed, kind: str, function: str, reason: str
) -> None:
    expression, use, error = FUNCTIONS[kind]
    name = installed(GROUP_OF[kind], expression.format(function))
    with pytest.raises(error, match=name + reason):
        use()


@pytest.mark.parametrize(
    ("kind", "result", "reason"),
    [
        ("formatter", "None", "make returned None, not a function"),
        ("line", "'text'", "the function of make returned a value of type str, not bytes"),
        ("line", "None", "the function of make returned None, not bytes"),
        ("decoder", "None", "decode returned None, not str"),
        ("decoder", "b'text'", "decode returned a value of type bytes, not str"),
        ("text", "None", "text returned None, not str"),
        ("serialize", "'text'", "serialize returned a value of type str, not bytes or None"),
        ("storage", "None", "open returned None, not a Storage"),
    ],
)
def test_a_result_of_a_wrong_type_names_the_plugin(installed: Installed, kind: str, result: str, reason: str) -> None:
    expression, use, error = FUNCTIONS[kind]
    name = installed(GROUP_OF[kind], expression.format(f"give({result})"))
    with pytest.raises(error, match=f"{name} failed: {reason}$"):
        use()


def format_one() -> None:
    formatter: Any = make_formatter("bad", {})
    formatter._formatted(None)


FUNCTIONS: dict[str, tuple[str, Callable[[], object], type[Exception]]] = {
    "formatter": ("FormatterPlugin({})", format_one, PluginError),
    "line": ("FormatterPlugin(give({}))", format_one, SerializationError),
    "decoder": ("DecoderPlugin({})", lambda: value_decoder("bad")(b"1"), Damage),  # type: ignore[misc]
    "deserialize": ("DeserializerPlugin({})", lambda: object_deserializer("bad")(b"1"), SerializationError),
    "text": ("DeserializerPlugin(bytes, {})", lambda: deserializer("bad")(b"1"), SerializationError),
    "serialize": (
        "SerializerPlugin({})",
        lambda: serializer_for("value.serializer", "bad")("t", 1),
        SerializationError,
    ),
    "storage": ("StoragePlugin({})", lambda: open_store("bad://place"), CommandError),
}
GROUP_OF = {
    "formatter": "formatters",
    "line": "formatters",
    "decoder": "formatters",
    "deserialize": "deserializers",
    "text": "deserializers",
    "serialize": "deserializers",
    "storage": "storage",
}

STORAGE = """
class Bad:
    def sizes(self, directory):
        return RESULT()
    directories = read = remove = sizes
    def write(self, name, data):
        return RESULT()
"""
USES: dict[str, Callable[[PluginStore], object]] = {
    "sizes": lambda store: store.sizes("0001"),
    "directories": lambda store: store.directories("0001"),
    "read": lambda store: read_object(store, "0001"),
    "write": lambda store: store.put("0001", b"content"),
    "remove": lambda store: store.remove("0001"),
}
ALL = tuple(USES)


def test_a_serializer_that_fails_names_value_and_topic(installed: Installed) -> None:
    name = installed("deserializers", "SerializerPlugin(fail)")
    serialize = serializer_for("value.serializer", "bad")
    with pytest.raises(SerializationError, match=f"^Can't serialize 1 for topic t: {name} failed: ValueError: oops$"):
        serialize("t", 1)


@pytest.mark.parametrize(
    ("result", "uses", "reason"),
    [
        ("fail", ALL, "ValueError: oops"),
        ("leave", ALL, "SystemExit: 7"),
        ("lambda: open('/')", ALL, r"IsADirectoryError: \[Errno 21\] Is a directory: '/'"),
        ("lambda: exec('raise kafkatools.errors.Timeout(\"slow\")')", ALL, "Timeout: slow"),
        (
            "lambda: open('/nowhere')",
            ("write",),
            r"FileNotFoundError: \[Errno 2\] No such file or directory: '/nowhere'",
        ),
        ("give(None)", ("sizes",), "sizes returned None, not a mapping of names to sizes in bytes"),
        ("give({'part': '7'})", ("sizes",), "sizes returned a value of type dict, not a mapping of names to .*"),
        ("give(None)", ("directories",), "directories returned None, not a sequence of names"),
        ("give('0001')", ("directories",), "directories returned a value of type str, not a sequence of names"),
        ("give([b'0001'])", ("directories",), "directories returned a value of type list, not a sequence of names"),
        ("give(None)", ("read",), "read returned None, not bytes"),
        ("give('text')", ("read",), "read returned a value of type str, not bytes"),
    ],
)
def test_a_storage_that_fails_names_url_object_and_plugin(
    installed: Installed, result: str, uses: tuple[str, ...], reason: str
) -> None:
    name = installed("storage", "StoragePlugin(lambda url: Bad())", f"RESULT = {result}\n{STORAGE}")
    store: Any = open_store("bad://place")
    for use in uses:
        with pytest.raises(CommandError, match=f"^bad://place/0001: {name} failed: {reason}$") as raised:
            USES[use](store)
        assert raised.value.kind == "STORAGE_FAILED"


def test_a_backup_in_a_storage_that_fails_is_one_line(installed: Installed) -> None:
    installed("storage", "StoragePlugin(lambda url: Bad())", f"RESULT = fail\n{STORAGE}")
    ran = run_kt("backup", "verify", "bad://place")
    assert ran.status is ExitStatus.FAILED and ran.out == ""
    assert ran.err.startswith("bad://place") and "ValueError: oops" in ran.err and ran.err.count("\n") == 1
    assert "Traceback" in run_kt("backup", "verify", "bad://place", environ={"KT_DEBUG": "1"}).err


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('Command("x", None)', "summary of the Command 'x' is None, not a str"),
        ('Command("x", "y", options=[])', "options of the Command 'x' is a list, not a tuple"),
        ('Command("x", "y", options=("--a",))', "options of the Command 'x' is a tuple with a str, not of Option"),
        ('Command("x", "y", examples=(1,))', "examples of the Command 'x' is a tuple with a int, not of str"),
        ('Command("x", "y", run=1)', "run of the Command 'x' is a int, not a function"),
        ('Command("x", "y", (Option("--a", 1),))', "about of the Option '--a' is a int, not a str"),
        ('Command("x", "y", (Option("--a", "b", type=None),))', "type of the Option '--a' is None, not a function"),
        ('Command("x", "y", subcommands=(Command(1, "z"),))', "name of the Command 1 is a int, not a str"),
    ],
)
def test_a_command_with_a_wrong_field_is_a_broken_plugin(installed: Installed, expression: str, reason: str) -> None:
    installed("commands", expression)
    ran = run_kt("bad", "--help")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.endswith(f"BAD) cannot be used: {reason}\n") and ran.err.startswith("plugin bad of acme-tools 1.0 (")
    assert run_kt("--help").status is run_kt("help-json").status is ExitStatus.OK


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ("fail", "ValueError: oops"),
        ("leave", "SystemExit: 7"),
        ("lambda *arguments: open('/nowhere')", "FileNotFoundError: /nowhere: No such file or directory"),
        ("give(None)", "TypeError: run returned None, not an ExitStatus"),
        ("lambda *arguments: eval('1 / 0')", "ZeroDivisionError: division by zero"),
        ("give(1)", "TypeError: run returned a value of type int, not an ExitStatus"),
    ],
    ids=("raises", "exits", "file", "none", "arithmetic", "int"),
)
def test_a_command_that_fails_names_the_plugin(installed: Installed, run: str, reason: str) -> None:
    installed("commands", f'Command("bad", "Fail.", run={run}, needs_arguments=False)')
    ran = run_kt("bad")
    first, hint = ran.err.splitlines()
    assert ran.status is ExitStatus.FAILED
    assert first.startswith("plugin bad of acme-tools 1.0 (kafkatools.commands: ") and first.endswith(
        f"failed: {reason}"
    )
    assert hint == "Set KT_DEBUG=1 to see where."
    error = json.loads(run_kt("bad", "--json").err)["error"]
    assert (error["kind"], error["message"]) == ("INTERNAL", first)
    assert "Traceback" in run_kt("bad", environ={"KT_DEBUG": "1"}).err


@pytest.mark.parametrize("mechanism", ["None", "''", "b'ACME'"])
def test_a_login_without_the_name_of_its_mechanism_is_a_broken_plugin(installed: Installed, mechanism: str) -> None:
    name = installed("logins", f"MechanismPlugin({mechanism}, fail)")
    with pytest.raises(PluginError, match=f"^{name} cannot be used: mechanism is not the name of a SASL mechanism$"):
        find_plugin("bad")


@pytest.mark.parametrize("use", ["formatter", "decoder", "deserialize", "serialize", "storage", "login"])
def test_a_plugin_that_cannot_be_imported_is_named(installed: Installed, use: str) -> None:
    installed("logins" if use == "login" else GROUP_OF[use], "None", "import nowhere_to_be_found")
    function: Callable[[], object] = (lambda: find_plugin("bad")) if use == "login" else FUNCTIONS[use][1]
    with pytest.raises(KafkaError, match=r"^plugin bad of acme-tools 1\.0 .* cannot be loaded: ModuleNotFoundError: "):
        function()


def test_a_formatter_that_fails_is_one_line_without_a_traceback(installed: Installed, tmp_path: pathlib.Path) -> None:
    with kafkatools.EmbeddedBroker(directory=tmp_path / "broker") as broker:
        with kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("words", b"apple").result()
        shutil.copytree(next((tmp_path / "broker").rglob("words-0")), tmp_path / "words-0")
    for expression in ("FormatterPlugin(give(fail))", "FormatterPlugin(give(give('text')))", "FormatterPlugin(fail)"):
        installed("formatters", expression)
        ran = run_kt("console-consumer", "--from", f"log:{tmp_path / 'words-0'}", "--formatter", "bad")
        lines = [line for line in ran.err.splitlines() if not line.startswith("Processed a total of ")]
        assert (ran.status, ran.out, len(lines)) == (ExitStatus.FAILED, "", 1), ran.err
        assert lines[0].startswith("plugin bad of acme-tools 1.0 (kafkatools.formatters: ")


def test_the_type_of_an_option_that_fails_names_the_plugin(installed: Installed) -> None:
    installed("commands", 'Command("bad", "x", (Option("--n", "y", value="N", type=lambda text: {}[text]),), run=fail)')
    ran = run_kt("bad", "--n", "1")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.startswith("plugin bad of acme-tools 1.0 (") and "failed: KeyError: '1'\n" in ran.err
