"""Plugins: entry points of other distributions become commands, formatters, decoders, serializers, logins and storages;
a broken one is one line and breaks nothing else."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest
from support.installed_plugin import install
from support.kt import run_kt

import kafkatools
from kafkatools import plugins
from kafkatools.core import entry_points
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import ADMIN, Config
from kafkatools.core.consumer.deserializers import object_deserializer
from kafkatools.core.errors import ConfigError, PluginError, SerializationError
from kafkatools.core.net.security.login import Login, login_of
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.store import read_object

Install = Callable[..., None]
NUMBERS = itertools.count()
ROOT = pathlib.Path(__file__).parents[2]

COMMAND = """
from kafkatools.plugins import *

def run(console, args):
    if args.fails:
        raise ZeroDivisionError("division by zero")
    console.print(f"hello {args.name}", {"hello": args.name})
    return ExitStatus.OK

COMMAND = Command("other-name", "Say hello.", needs_arguments=False, run=run, options=(
    Option("--name", "Whom to greet.", value="NAME", default="you", choices=("you", "me")),
    Option("--fails", "Fail."),
))
BAD_OPTION = COMMAND._replace(options=(Option("--$(reboot)", "Break a completion script."),))
"""


@pytest.fixture
def installed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """installed(points, text=..., distribution=...): installs a distribution whose module is called MODULE in the
    targets of its points."""

    def add(points: Mapping[str, str], text: str = COMMAND, distribution: str = "acme-tools") -> None:
        number = next(NUMBERS)
        module = f"plugin_module_{number}"
        place = tmp_path / str(number)
        targets = {name: target.replace("MODULE", module) for name, target in points.items()}
        install(place, distribution, targets, {module: text})
        monkeypatch.syspath_prepend(str(place))

    return add


def test_a_command_runs_and_is_listed_with_its_distribution(installed: Install) -> None:
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"})
    ran = run_kt("hello", "--name", "me")
    assert (ran.status, ran.out, ran.err) == (ExitStatus.OK, "hello me\n", "")
    assert json.loads(run_kt("hello", "--json").out) == {"hello": "you"}
    assert run_kt("hello", "--help").out.startswith("usage: kt hello [OPTION]...\n")
    assert run_kt("help", "hello").out == run_kt("hello", "--help").out
    wrong = run_kt("hello", "--nmae", "me")
    assert wrong.status is ExitStatus.USAGE and "See kt hello --help." in wrong.err
    text = run_kt("--help").out
    assert "Plugins:\n  hello" in text and "Say hello. (acme-tools 1.0)" in text
    assert "Did you mean kt hello?" in run_kt("helo").err


def test_help_json_and_completion_know_the_command(installed: Install) -> None:
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"})
    tree = json.loads(run_kt("help-json").out)["commands"]
    assert (tree[-1]["name"], tree[-1]["distribution"]) == ("hello", "acme-tools 1.0")
    assert {command["distribution"] for command in tree[:-1]} == {None}
    assert json.loads(run_kt("help-json", "hello").out) == tree[-1]
    script = run_kt("completion", "--shell", "bash").out
    assert '            hello) words="--name --fails --json --help --version" ;;' in script
    assert '"hello --name") words="you me" ;;' in script
    assert "-n '__kt_at hello' -l name" in run_kt("completion", "--shell", "fish").out


def test_a_destructive_command_asks_on_a_protected_cluster(installed: Install, tmp_path: pathlib.Path) -> None:
    replacement = "options=(*COMMAND.options, BOOTSTRAP_SERVER, command_config()), destructive=ALWAYS"
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"}, f"{COMMAND}\nCOMMAND = COMMAND._replace({replacement})")
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('[profiles.prod]\nbootstrap_servers = "localhost:1"\nprotected = true\ncluster = "payments"\n')
    environ = {"KT_CONFIG": str(profiles)}
    refused = run_kt("--profile", "prod", "hello", environ=environ)
    assert (refused.status, refused.out) == (ExitStatus.USAGE, "") and "is protected" in refused.err
    assert run_kt("--profile", "prod", "--confirm", "payments", "hello", environ=environ).out == "hello you\n"


def test_an_error_of_the_command_names_the_distribution(installed: Install) -> None:
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"})
    ran = run_kt("hello", "--fails")
    assert ran.status is ExitStatus.FAILED
    pattern = r"plugin hello of acme-tools 1\.0 \(kafkatools\.commands: \w+:COMMAND\) failed: ZeroDivisionError: "
    assert re.match(pattern + "division by zero\n", ran.err)


@pytest.mark.parametrize(
    ("target", "text", "reason"),
    [
        ("MODULE:COMMAND", "import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("MODULE:COMMAND", "raise SystemExit(7)", "SystemExit: 7"),
        ("MODULE:COMMAND", "def broken(:", "SyntaxError: "),
        ("MODULE:GONE", COMMAND, "AttributeError: "),
        ("MODULE:run", COMMAND, "it is a function, not a Command"),
        ("MODULE:BAD_OPTION", COMMAND, "'--$(reboot)' is not the name of an option"),
    ],
    ids=("import", "exit", "syntax", "attribute", "class", "option"),
)
def test_a_broken_plugin_is_one_line_and_breaks_nothing_else(
    installed: Install, target: str, text: str, reason: str
) -> None:
    installed({"kafkatools.commands/broken": target}, text)
    ran = run_kt("broken", "--anything")
    assert (ran.status, ran.out, ran.err.count("\n")) == (ExitStatus.FAILED, "", 1)
    assert ran.err.startswith("plugin broken of acme-tools 1.0 (kafkatools.commands: plugin_module_")
    assert reason in ran.err
    error = json.loads(run_kt("broken", "--json").err)["error"]
    assert (error["kind"], error["exit"]) == ("PLUGIN_FAILED", 1)
    assert "Traceback" in run_kt("broken", environ={"KT_DEBUG": "1"}).err
    listed = run_kt("--help")
    assert listed.status is ExitStatus.OK and "plugin broken of acme-tools 1.0" in listed.out
    assert run_kt("topics", "--help").status is ExitStatus.OK
    tree = run_kt("help-json")
    assert tree.status is ExitStatus.OK and reason in tree.err
    assert " broken) words=" not in run_kt("completion", "--shell", "bash").out
    assert run_kt("no-such-command").status is ExitStatus.USAGE


def test_a_command_of_kt_cannot_be_replaced(installed: Install) -> None:
    points = {f"kafkatools.commands/{name}": "MODULE:COMMAND" for name in ("topics", "dump-log-segments", "version")}
    installed(points)
    assert run_kt("topics", "--help").out.startswith("usage: kt topics")
    assert run_kt("dump-log-segments", "--help").out.startswith("usage: kt dump-log")
    assert run_kt("version").out.startswith("kafkatools ")
    text = " ".join(run_kt("--help").out.split())
    assert "is ignored: kt has a command topics" in text
    assert "hello" not in run_kt("completion", "--shell", "bash").out


def test_a_name_of_two_distributions_is_refused(installed: Install) -> None:
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"})
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"}, distribution="other-tools")
    ran = run_kt("hello")
    assert ran.status is ExitStatus.FAILED
    assert ran.err == (
        "plugin hello (kafkatools.commands) is in acme-tools 1.0 and other-tools 1.0: uninstall one of them\n"
    )
    assert run_kt("--help").status is ExitStatus.OK


def test_the_first_of_two_installations_of_a_distribution_counts(installed: Install) -> None:
    installed({"kafkatools.commands/hello": "MODULE:COMMAND"})
    installed({"kafkatools.commands/hallo": "MODULE:COMMAND"})
    assert [point.name for point in entry_points.entry_points("kafkatools.commands")] == ["hallo"]


def test_entry_points_are_those_of_importlib_metadata(installed: Install) -> None:
    installed({"kafkatools.commands/one": "MODULE:COMMAND", "kafkatools.formatters/two": "MODULE:A.b [extra]"})
    installed({"kafkatools.commands/three": "MODULE", "console_scripts/four": "MODULE:x"}, distribution="b")
    for group in ("kafkatools.commands", "kafkatools.formatters"):
        expected = {
            (point.name, point.module, point.attr or "") for point in importlib.metadata.entry_points(group=group)
        }
        found = {(point.name, *point.target.partition(":")[::2]) for point in entry_points.entry_points(group)}
        assert found == expected != set()


def test_a_known_command_does_not_look_for_plugins() -> None:
    program = (
        "import sys; from kafkatools.cli import main; from kafkatools.console import Console;"
        "main(['topics', '--help'], Console.of_process());"
        "sys.exit('kafkatools.core.entry_points' in sys.modules or 'importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")


FORMATTERS = """
from kafkatools.plugins import FormatterPlugin, DecoderPlugin
from kafkatools.errors import ConfigError

def make(properties):
    if "word" not in properties:
        raise ConfigError("shout needs the property word")
    def line(record):
        return f"{properties['word']} {record.offset} {record.value.decode().upper()}\\n".encode()
    return line

SHOUT = FormatterPlugin(make)
REVERSED = DecoderPlugin(lambda data: data.decode()[::-1])
REFUSES = DecoderPlugin(lambda data: data.nothing)
"""
POINTS = {f"kafkatools.formatters/{name}": f"MODULE:{name.upper()}" for name in ("shout", "reversed", "refuses")}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory of a partition with two records."""
    place = tmp_path_factory.mktemp("broker")
    with kafkatools.EmbeddedBroker(directory=place) as broker:
        with kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for word in (b"apple", b"pear"):
                producer.send("words", word).result()
        shutil.copytree(next(place.rglob("words-0")), place / "copy" / "words-0")
    return place / "copy" / "words-0"


def test_a_formatter_prints_records_and_a_decoder_dumps_them(installed: Install, log: pathlib.Path) -> None:
    installed(POINTS, FORMATTERS)
    values = ["apple", "pear"]
    assert read(log, "--formatter", "shout", "--formatter-property", "word=hey") == [
        f"hey {offset} {value.upper()}" for offset, value in enumerate(values)
    ]
    assert "share-group-state, refuses, reversed, shout\n" in run_kt(*consume(log), "--formatter", "shoutt").err
    assert "shout needs the property word" in run_kt(*consume(log), "--formatter", "shout").err
    assert "cannot be used with --json" in run_kt(*consume(log), "--json", "--formatter", "shout").err
    assert "it is a DecoderPlugin, not a FormatterPlugin" in run_kt(*consume(log), "--formatter", "reversed").err
    dumped = run_kt("dump-log", "--files", str(log), "--value-decoder-class", "reversed")
    assert all(f"payload: {value[::-1]}\n" in dumped.out for value in values)
    refused = run_kt("dump-log", "--files", str(log), "--value-decoder-class", "refuses")
    assert refused.status is ExitStatus.FINDINGS
    assert re.search(r"plugin refuses of acme-tools 1.0 \(.*:REFUSES\) failed: AttributeError: ", refused.err)


def consume(log: pathlib.Path) -> tuple[str, ...]:
    return ("console-consumer", "--from", f"log:{log}")


def read(log: pathlib.Path, *options: str) -> list[str]:
    ran = run_kt(*consume(log), *options)
    assert ran.status is ExitStatus.OK, ran.err
    return ran.out.splitlines()


SERDES = """
from decimal import Decimal
from kafkatools.plugins import DeserializerPlugin, SerializerPlugin

DECODE = DeserializerPlugin(lambda data: Decimal(data.decode()), lambda number: f"{number:.2f}")
ENCODE = SerializerPlugin(lambda topic, number: str(number).encode())
"""


def test_deserializers_and_serializers_are_named_in_settings(installed: Install) -> None:
    points = {
        "kafkatools.deserializers/DecimalDeserializer": "MODULE:DECODE",
        "kafkatools.deserializers/DecimalSerializer": "MODULE:ENCODE",
    }
    installed(points, SERDES)
    from decimal import Decimal

    from kafkatools.core.consumer.deserializers import deserializer
    from kafkatools.core.producer.serializers import serializer_for

    assert object_deserializer("DecimalDeserializer")(b"1.5") == Decimal("1.5")
    assert deserializer("DecimalDeserializer")(b"1.5") == b"1.50"
    with pytest.raises(SerializationError, match=r"^plugin DecimalDeserializer of acme-tools 1.0 .*: InvalidOperation"):
        object_deserializer("DecimalDeserializer")(b"x")
    assert serializer_for("value.serializer", "DecimalSerializer")("topic", Decimal("2.5")) == b"2.5"
    with pytest.raises(SerializationError):
        object_deserializer("LongDeserializer")(b"1.5")  # that of Kafka
    with pytest.raises(PluginError, match="it is a DeserializerPlugin, not a SerializerPlugin"):
        serializer_for("value.serializer", "DecimalDeserializer")
    with pytest.raises(ConfigError, match="Unknown deserializer NoDeserializer"):
        object_deserializer("NoDeserializer")


LOGINS = """
from kafkatools.plugins import MechanismPlugin, Token, TokenPlugin

class Exchange:
    name = "X-ACME"
    is_complete = True

    def __init__(self, options, host):
        self.message = f"\\0{options['username']}\\0{options['password']}".encode()

    def initial(self):
        return self.message

    def respond(self, challenge):
        return None

PLAIN = MechanismPlugin("PLAIN", Exchange)
TOKEN = TokenPlugin(lambda options: Token(options["token"], None))
"""


@pytest.mark.slow
def test_a_login_authenticates_with_a_broker(installed: Install) -> None:
    installed({"kafkatools.logins/ACME": "MODULE:PLAIN", "kafkatools.logins/ACME-TOKEN": "MODULE:TOKEN"}, LOGINS)
    options = kafkatools.SecurityOptions(sasl="plain", users={"alice": "secret"})
    jaas = 'o.a.k.PlainLoginModule required username="alice" password="{}" token="abc";'
    with kafkatools.EmbeddedBroker(security=options) as broker:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "ACME"}
        for password, is_right in (("secret", True), ("wrong", False)):
            settings["sasl.jaas.config"] = jaas.format(password)
            with kafkatools.Admin({"bootstrap.servers": broker.bootstrap, **settings}) as admin:
                if is_right:
                    assert admin.list_topics() == []
                else:
                    with pytest.raises(kafkatools.errors.SaslAuthenticationFailed):
                        admin.list_topics()
    settings["sasl.mechanism"] = "ACME-TOKEN"
    config = Config(ADMIN, {"bootstrap.servers": "localhost:1", **settings})
    login = wait_for_login(config)
    assert login.mechanism == "OAUTHBEARER"
    assert login.start("localhost").initial() == b"n,,\x01auth=Bearer abc\x01\x01"
    config = Config(ADMIN, {"bootstrap.servers": "localhost:1", **settings, "sasl.mechanism": "NONE-SUCH"})
    with pytest.raises(ConfigError, match="sasl.mechanism NONE-SUCH is not built in"):
        login_of(config, SystemClock(), lambda: None)


def wait_for_login(config: Config) -> Login:
    import threading

    fetched = threading.Event()
    login = login_of(config, SystemClock(), fetched.set)
    assert not login.is_ready("localhost")
    assert fetched.wait(30)
    assert login.is_ready("localhost")
    return login


STORAGES = """
from kafkatools.plugins import StoragePlugin

class Memory:
    def __init__(self, url):
        if url.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        self.objects = {"0001/part": b"content"}

    def sizes(self, directory):
        return {"part": 7} if directory == "0001" else {}

    def directories(self, directory):
        return ["0001"]

    def read(self, name):
        if name not in self.objects:
            raise FileNotFoundError(name)
        return self.objects[name]

    def write(self, name, data):
        self.objects[name] = data

    def remove(self, name):
        raise TimeoutError("the storage is away")

STORAGE = StoragePlugin(Memory)
"""


def test_a_storage_opens_urls_of_its_scheme(installed: Install) -> None:
    installed({"kafkatools.storage/acme": "MODULE:STORAGE"}, STORAGES)
    store = open_store("acme://bucket/prod/")
    assert (store.url, store.is_local) == ("acme://bucket/prod", False)
    assert (store.directories(), store.sizes("0001")) == (["0001"], {"part": 7})
    new = store.new_object("0001/next")
    new.write(memoryview(b"one "))
    new.write(memoryview(b"two"))
    with pytest.raises(CommandError, match="acme://bucket/prod/0001/next does not exist") as missing:
        read_object(store, "0001/next")
    assert missing.value.kind == "MISSING"
    new.finish()
    assert read_object(store, "0001/next") == b"one two"
    with pytest.raises(CommandError, match="acme://bucket/prod/0001/part: plugin acme .* the storage is away"):
        store.remove("0001/part")
    with pytest.raises(CommandError, match="Permission denied"):
        open_store("acme://closed")


def test_the_page_names_every_name_that_plugins_may_import() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for name in plugins.__all__:
        assert f"`{name}" in page, name
        assert getattr(plugins, name).__doc__ or not callable(getattr(plugins, name))
    for interface in (plugins.Token, plugins.Mechanism, plugins.Storage):
        (row,) = re.findall(rf"^\| `{interface.__name__}` \|.*$", page, re.MULTILINE)
        members = [*interface.__annotations__, *(name for name in vars(interface) if not name.startswith("_"))]
        assert [name for name in members if name not in row] == []
    source = (ROOT / "kafkatools" / "plugins.py").read_text(encoding="utf-8")
    assert all(f" import {name} as {name}\n" in source for name in plugins.__all__)
