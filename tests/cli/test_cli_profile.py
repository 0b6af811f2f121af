"""`kt profile import`: files as Kafka, librdkafka, rpk, kafkactl and kcl write them, and a login with the result."""

from __future__ import annotations

import json
import pathlib
import stat
import sys
import tomllib
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.secure_broker import SecureBroker

from kafkatools.exit_status import ExitStatus
from kafkatools.options.profiles import find_profile
from kafkatools.options.properties import parse_properties
from kafkatools.tools.profile_file import properties_text, with_profile

RPK = """\
version: 6
globals:
    prompt: ""
    command_timeout: 0s
    dial_timeout: 3s
current_profile: prod
profiles:
    - name: prod
      description: Production
      kafka_api:
        brokers:
            - broker1:9093
            - broker2:9093
        tls:
            insecure_skip_verify: true
        sasl:
            user: alice
            password: alice-canary
            mechanism: SCRAM-SHA-512
      admin_api:
        addresses:
            - broker1:9644
      schema_registry: {}
    - name: dev
      kafka_api:
        brokers:
            - 127.0.0.1:9092
      admin_api: {}
"""
KAFKACTL = """\
contexts:
  default:
    brokers:
    - localhost:9092
  remote-cluster:
    brokers:
    - remote-cluster001:9092
    - remote-cluster002:9092
    tls:
      enabled: true
    sasl:
      enabled: true
      username: admin
      password: admin-canary
    clientID: my-client-id
    requestTimeout: 10s
  off:
    brokers:
    - localhost:9093
    tls:
      enabled: false
      ca: my-ca
    sasl:
      enabled: false
      username: admin
      password: admin-canary
  tokens:
    brokers:
    - localhost:9094
    sasl:
      enabled: true
      mechanism: oauth
current-context: default
"""
KCL = """\
seed_brokers = ["localhost:9092", "otherhost:9092"]
timeout_ms = 1000

[sasl]
method = "scram_sha_256"
user = "bob"
pass = 'bob"\\canary'
"""


class Imports:
    """Runs `kt profile import` with a file of profiles in a directory of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.config = directory / "home" / "config.toml"

    def file(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def kt(self, *words: str) -> Ran:
        return run_kt(*words, environ={"KT_CONFIG": str(self.config)}, cwd=self.directory)

    def settings(self, name: str) -> dict[str, str]:
        """The settings of a profile as commands read them."""
        profile = find_profile(name, {"KT_CONFIG": str(self.config)}, str(self.directory))
        assert profile is not None
        return {"bootstrap": profile.bootstrap_servers or "", **profile.settings}


@pytest.fixture
def imports(tmp_path: pathlib.Path) -> Imports:
    return Imports(tmp_path)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    with made.broker:
        yield made


def test_logins_with_profiles_of_kafkactl_and_kcat(imports: Imports, secure: SecureBroker) -> None:
    ca = secure.authority.certificate
    (imports.directory / "etc").mkdir()  # a relative path is beside the file, wherever kt runs
    (imports.directory / "etc" / "ca.pem").write_text(pathlib.Path(ca).read_text())
    for name, password in (("good", "alice-canary"), ("bad", "wrong-canary")):
        context = f"brokers: [{secure.bootstrap('SASL_SSL')}]\n    tls: {{enabled: true, ca: ca.pem}}\n"
        context += f"    sasl: {{enabled: true, username: alice, password: {password}}}\n"
        made = imports.kt("profile", "import", imports.file("etc/config.yml", f"contexts:\n  {name}:\n    {context}"))
        assert (made.status, made.err) == (ExitStatus.OK, "")
    kcat = f"bootstrap.servers={secure.bootstrap('SASL_SSL')}\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\n"
    kcat += f"sasl.username=alice\nsasl.password=alice-canary\nssl.ca.location={ca}\n"
    assert imports.kt("profile", "import", imports.file("kcat.conf", kcat)).status == ExitStatus.OK
    for name in ("good", "kcat"):
        ran = imports.kt("--profile", name, "cluster", "cluster-id")
        assert (ran.status, ran.err) == (ExitStatus.OK, ""), name
    refused = imports.kt("--profile", "bad", "cluster", "cluster-id")
    assert refused.status != ExitStatus.OK
    assert "uthentication failed" in refused.err


def test_profiles_of_rpk(imports: Imports) -> None:
    path = imports.file("rpk.yaml", RPK)
    ran = imports.kt("profile", "import", path)
    assert ran.status == ExitStatus.OK
    assert ran.out.splitlines() == [
        f"prod: created in {imports.config} (broker1:9093,broker2:9093)",
        f"dev: created in {imports.config} (127.0.0.1:9092)",
    ]
    assert [line.rpartition(": ")[0] for line in ran.err.splitlines()] == [
        f"Not imported: {path}, line 15, profiles[0].kafka_api.tls.insecure_skip_verify",
        f"Not imported: {path}, line 22, profiles[0].admin_api.addresses",
        f"Not imported: {path}, line 5, globals.dial_timeout",
        f"Not imported: {path}, line 6, current_profile: the default of the profile file stays as it is",
    ]
    assert "canary" not in ran.out + ran.err + imports.config.read_text()
    assert imports.settings("prod") == {
        "bootstrap": "broker1:9093,broker2:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "alice-canary",
    }
    assert imports.settings("dev") == {"bootstrap": "127.0.0.1:9092"}
    secrets = imports.config.parent / "prod.properties"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (secrets, imports.config)] == [0o600, 0o600]


def test_contexts_of_kafkactl_that_are_off_or_cannot_be_used(imports: Imports) -> None:
    ran = imports.kt("profile", "import", imports.file("config.yml", KAFKACTL), "--json")
    assert ran.status == ExitStatus.FAILED
    rows = {row["profile"]: row for row in map(json.loads, ran.out.splitlines())}
    assert list(rows) == ["default", "remote-cluster", "off"]
    (leftover,) = rows["remote-cluster"]["not_imported"]
    assert leftover["place"].endswith("config.yml, line 16, contexts.remote-cluster.requestTimeout")
    errors = [json.loads(line)["error"]["message"] for line in ran.err.splitlines() if "error" in json.loads(line)]
    assert len(errors) == 1
    assert (
        "'tokens' was not made" in errors[0] and "line 28, contexts.tokens: SASL" in errors[0] and "oauth" in errors[0]
    )
    assert imports.settings("remote-cluster") == {
        "bootstrap": "remote-cluster001:9092,remote-cluster002:9092",
        "client.id": "my-client-id",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-canary",
    }
    assert imports.settings("off") == {"bootstrap": "localhost:9093"}
    assert "canary" not in ran.out + ran.err


def test_the_file_of_kcl_under_a_name_of_ones_own(imports: Imports) -> None:
    ran = imports.kt("profile", "import", imports.file("config.toml", KCL), "--name", "lab")
    assert (ran.status, ran.out) == (
        ExitStatus.OK,
        f"lab: created in {imports.config} (localhost:9092,otherhost:9092)\n",
    )
    assert "timeout_ms" in ran.err
    assert imports.settings("lab")["sasl.password"] == 'bob"\\canary'
    assert imports.settings("lab")["security.protocol"] == "SASL_PLAINTEXT"


def test_profiles_of_a_newer_kcl(imports: Imports) -> None:
    text = 'current_profile = "prod"\n[profiles.prod]\nseed_brokers = ["p:9092"]\nbroker_timeout = "10s"\n'
    text += '[profiles.prod.tls]\n[profiles.local]\nseed_brokers = ["localhost:9092"]\n'
    path = imports.file("config.toml", text)
    ran = imports.kt("profile", "import", path)
    assert ran.status == ExitStatus.OK
    assert imports.settings("prod") == {"bootstrap": "p:9092", "security.protocol": "SSL"}
    assert imports.settings("local") == {"bootstrap": "localhost:9092"}
    assert f"{path}, profiles.prod.broker_timeout" in ran.err
    own = imports.kt("profile", "import", str(imports.config))
    assert own.status == ExitStatus.USAGE and "this is no file of" in own.err


def test_properties_of_kafka_stay_in_place_and_unknown_settings_are_named(imports: Imports) -> None:
    text = "# of the team\nbootstrap.servers = b1:9093\nsecurity.protocol=SSL\nlog_level=7\nlinger.ms=5\n"
    path = imports.file("client.properties", text)
    ran = imports.kt("profile", "import", "client.properties", "--name", "team")
    assert ran.status == ExitStatus.OK
    assert ran.err == f"Not imported: {path}, line 4, log_level: no setting of Kafka's clients; it has no effect\n"
    assert tomllib.loads(imports.config.read_text())["profiles"]["team"] == {
        "bootstrap_servers": "b1:9093",
        "command_config": path,
    }
    assert pathlib.Path(path).read_text() == text
    without = imports.kt("profile", "import", imports.file("tls.properties", "security.protocol=SSL\n"))
    assert without.status == ExitStatus.OK and "there are no brokers in the file" in without.err


def test_a_login_of_librdkafka_with_settings_that_kafka_has_too(imports: Imports) -> None:
    oauth = "bootstrap.servers=b:1\nsecurity.protocol=sasl_ssl\nsasl.mechanism=OAUTHBEARER\n"
    oauth += "sasl.oauthbearer.method=oidc\nsasl.oauthbearer.token.endpoint.url=https://id/\n"
    oauth += "sasl.oauthbearer.client.credentials.client.id=me\n"
    ran = imports.kt("profile", "import", imports.file("oauth.conf", oauth))
    assert ran.status == ExitStatus.OK and "line 4, sasl.oauthbearer.method: no setting of Kafka's clients" in ran.err
    unused = "bootstrap.servers=b:1\nsasl.mechanisms=PLAIN\nsasl.kerberos.keytab=/etc/k\n"
    ran = imports.kt("profile", "import", imports.file("unused.conf", unused))
    assert ran.status == ExitStatus.OK and "line 3, sasl.kerberos.keytab: no setting of Kafka's clients" in ran.err


KCAT = "bootstrap.servers=b:1\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password=%s\n"


def test_values_of_kcat_that_java_reads_differently_are_copied(imports: Imports) -> None:
    for number, (written, value) in enumerate(
        [("ca\\tn", "ca\\tn"), ("ca\\", "ca\\"), ("ca \r", "ca"), ("\\u0zz", "\\u0zz")]
    ):
        ran = imports.kt("profile", "import", imports.file("kcat.conf", KCAT % written), "--name", f"p{number}")
        assert ran.status == ExitStatus.OK and "the profile has a copy of these settings" in ran.err
        assert imports.settings(f"p{number}")["sasl.password"] == value
        assert stat.S_IMODE((imports.config.parent / f"p{number}.properties").stat().st_mode) == 0o600
    plain = imports.file("plain.conf", KCAT % "canary")
    ran = imports.kt("profile", "import", plain, "--json")
    (row,) = map(json.loads, ran.out.splitlines())
    assert (row["format"], row["command_config"], ran.err) == ("kcat", plain, "")


def test_a_file_that_kcat_and_kafka_read_differently_needs_its_format(imports: Imports) -> None:
    path = imports.file("client.properties", KCAT % "a\\\\b")
    refused = imports.kt("profile", "import", path)
    assert refused.status == ExitStatus.FAILED and not imports.config.exists()
    assert f"{path}, line 5, sasl.password: kcat and Kafka's clients read this value differently" in refused.err
    harmless = imports.file("harmless.properties", KCAT.replace("b:1", "b:1 ") % "canary")
    assert imports.kt("profile", "import", harmless).status == ExitStatus.OK
    for file_format, password in (("kcat", "a\\\\b"), ("properties", "a\\b")):
        words = ("--format", file_format, "--name", file_format)
        assert imports.kt("profile", "import", path, *words).status == ExitStatus.OK
        assert imports.settings(file_format)["sasl.password"] == password


@pytest.mark.parametrize("name", ["client.properties", "kcat.conf"])
def test_text_in_utf_16_is_named(imports: Imports, name: str) -> None:
    path = imports.file(name, "")
    pathlib.Path(path).write_bytes("bootstrap.servers=b:1\r\n".encode("utf-16"))
    ran = imports.kt("profile", "import", path)
    assert (ran.status, ran.err) == (ExitStatus.FAILED, f"{path}: the file is UTF-16 text\nSave it as UTF-8.\n")


@pytest.mark.parametrize("name", ["client.properties", "kcat.conf"])
def test_byte_order_mark_and_line_ends_of_windows(imports: Imports, name: str) -> None:
    path = imports.file(name, "")
    pathlib.Path(path).write_bytes(b"\xef\xbb\xbfbootstrap.servers=b:1\r\nclient.id=me\r\n")
    ran = imports.kt("profile", "import", path, "--name", "it")
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    assert imports.settings("it")["bootstrap"] == "b:1" and imports.settings("it")["client.id"] == "me"


@pytest.mark.parametrize(
    "name, text",
    [
        ("config.toml", "seed_brokers = ['a', '::1', '[::1]', 'b:1']"),
        ("rpk.yaml", "profiles: [{name: config, kafka_api: {brokers: [a, '::1', '[::1]', 'b:1']}}]"),
        ("config.conf", "bootstrap.servers=a, ::1,[::1],b:1"),
        ("config.properties", "metadata.broker.list=a,::1,[::1],b:1"),
    ],
)
def test_brokers_without_a_port_get_the_default_port_of_the_tool(imports: Imports, name: str, text: str) -> None:
    ran = imports.kt("profile", "import", imports.file(name, text), "--name", "it")
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    assert imports.settings("it")["bootstrap"] == "a:9092,[::1]:9092,[::1]:9092,b:1"


def test_nothing_is_written_by_a_dry_run(imports: Imports) -> None:
    ran = imports.kt("profile", "import", imports.file("rpk.yaml", RPK), "--dry-run")
    assert ran.status == ExitStatus.OK and ran.out.startswith("prod: planned in ")
    assert not imports.config.parent.exists()


def test_other_profiles_and_comments_stay_byte_for_byte(imports: Imports) -> None:
    before = (
        '# mine\r\ndefault = "dev"\n\n[profiles.dev] # old\nbootstrap_servers = "x:1"\n\n'
        "[profiles.dev.settings]\n\"client.id\" = 'me'\n\n# the big one\n[profiles.prod]\n"
        'bootstrap_servers = "y:1"  # no newline at the end'
    )
    imports.config.parent.mkdir()
    imports.config.write_bytes(before.encode())
    imports.config.chmod(0o640)
    one = imports.file("config.yml", "contexts:\n  new:\n    brokers: [z:1]\n")
    assert imports.kt("profile", "import", one).status == ExitStatus.OK
    added = '\n\n[profiles.new]\nbootstrap_servers = "z:1"\n'
    assert imports.config.read_bytes().decode() == before + added
    again = imports.file("config.yml", "contexts:\n  dev:\n    brokers: [z:2]\n")
    refused = imports.kt("profile", "import", again)
    assert refused.status == ExitStatus.FAILED and "a profile 'dev' already" in refused.err and "--force" in refused.err
    assert imports.config.read_bytes().decode() == before + added
    assert imports.kt("profile", "import", again, "--force").status == ExitStatus.OK
    start, end = before.index("[profiles.dev]"), before.index("\n# the big one")
    replaced = before[:start] + '[profiles.dev]\nbootstrap_servers = "z:2"\n'
    text = imports.config.read_bytes().decode()
    assert text.startswith(replaced) and text.endswith(before[end:] + added)
    assert text[len(replaced) : -len(before[end:] + added)].strip("\n") == ""
    assert stat.S_IMODE(imports.config.stat().st_mode) == 0o640


def test_a_file_that_cannot_be_changed_in_one_place_is_left_alone(imports: Imports) -> None:
    imports.config.parent.mkdir()
    imports.config.write_text('profiles = { dev = { bootstrap_servers = "x:1" } }\n')
    ran = imports.kt("profile", "import", imports.file("config.yml", "contexts:\n  new:\n    brokers: [z:1]\n"))
    assert ran.status == ExitStatus.FAILED and "without changing other parts" in ran.err
    assert imports.config.read_text() == 'profiles = { dev = { bootstrap_servers = "x:1" } }\n'
    text = 'x = """\n[profiles.a]\n"""\n'  # not a table, though a line looks like one
    changed = with_profile(text, "b", "[profiles.b]\n", "config.toml")
    assert changed == f"{text}\n[profiles.b]\n"


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("profiles", ["", '[profiles.prod]\ncommand_config = "prod.properties"\n'])
def test_a_properties_file_of_the_user_stays(imports: Imports, profiles: str, force: tuple[str, ...]) -> None:
    imports.config.parent.mkdir()
    imports.config.write_text(profiles)
    mine = imports.config.parent / "prod.properties"
    mine.write_text("ssl.key.password=mine\n")
    path = imports.file("rpk.yaml", RPK.replace("name: dev", "name: other"))
    ran = imports.kt("profile", "import", path, *force)
    assert ran.status == ExitStatus.FAILED
    if force or not profiles:
        assert f"{mine} exists and was not made by kt profile import for the profile 'prod'" in ran.err
    assert mine.read_text() == "ssl.key.password=mine\n" and imports.config.read_text() == profiles


def test_force_replaces_the_file_that_was_made_for_the_profile_alone(imports: Imports) -> None:
    assert imports.kt("profile", "import", imports.file("rpk.yaml", RPK)).status == ExitStatus.OK
    changed = imports.file("rpk.yaml", RPK.replace("alice-canary", "new-canary"))
    assert imports.kt("profile", "import", changed, "--force").status == ExitStatus.OK
    assert imports.settings("prod")["sasl.password"] == "new-canary"
    before = imports.config.read_text() + '\n[profiles.copy]\ncommand_config = "../home/prod.properties"\n'
    imports.config.write_text(before)
    refused = imports.kt("profile", "import", imports.file("rpk.yaml", RPK), "--force")
    assert refused.status == ExitStatus.FAILED
    assert f"{imports.config.parent / 'prod.properties'} exists and is the command_config of 'copy'" in refused.err
    assert imports.settings("prod")["sasl.password"] == "new-canary" and imports.config.read_text() == before


def test_secrets_are_as_before_when_the_file_of_profiles_cannot_be_written(imports: Imports) -> None:
    imports.file("no-directory", "")
    imports.config.parent.mkdir()
    imports.config.symlink_to(imports.directory / "no-directory" / "config.toml")
    ran = imports.kt("profile", "import", imports.file("rpk.yaml", RPK))
    assert ran.status == ExitStatus.FAILED and "no-directory" in ran.err
    assert [file.name for file in imports.config.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("value", [" a b ", "a\\b=c:d#!", "tab\tline\nend\r", "é€😀", "\\u0041"])
def test_values_of_a_properties_file_read_back(value: str) -> None:
    assert parse_properties(properties_text({"sasl.password": value})) == {"sasl.password": value}


BAD = [
    ("rpk.yaml", "profiles:\n  - kafka_api: {}\n", (), "line 2, profiles[0]: the profile has no name"),
    ("config.yml", "contexts: {}\n", (), "there are no contexts in this file"),
    ("other.yml", "services: {a: 1}\n", (), "this is no file of rpk (profiles), kafkactl (contexts)"),
    ("config.yml", "contexts:\n  a: {brokers: {b: 1}}\n", (), "'a' was not made"),
    ("config.yml", "contexts:\n  a:\n    brokers:\n    - b:1\n    - b\n", (),
     "line 5, contexts.a.brokers[1]: 'b' is not the address of a broker. Add the port"),
    ("config.toml", "seed_brokers = ['b', 'http://b:port']", (),
     "config.toml, seed_brokers[1]: 'http://b:port' is not the address of a broker. An address is HOST:PORT"),
    ("rpk.yaml", "profiles:\n  - {name: a, kafka_api: {brokers: [' ']}}\n", (), "kafka_api.brokers: there are no brok"),
    ("client.properties", "ssl.key.password=x\nbootstrap.servers=b:1,b\n", (),
     "line 2, bootstrap.servers: 'b' is not the address of a broker. Add the port"),
    ("kcat.conf", "bootstrap.servers=b:0\n", (), "line 1, bootstrap.servers: 'b:0' is not the address of a broker"),
    ("kcat.conf", "bootstrap.servers=b:1\nmetadata.broker.list=c:1\n", (),
     "bootstrap.servers (line 1) and metadata.broker.list (line 2) contradict each other"),
    ("config.yml", "contexts:\n  a: {brokers: [[1]]}\n", (), "line 2, contexts.a.brokers[0]: this must be a text"),
    ("config.yml", "contexts:\n  a: {brokers: [b:1], sasl: {enabled: true, username: u, password: 0123}}\n", (),
     "line 2, contexts.a.sasl.password: this must be a text or a list of texts; put it in quotes"),
    ("config.yml", "contexts:\n  a: {brokers: [b:1], sasl: {enabled: true}}\n", (), "SASL is on, but there is no user"),
    ("config.toml", "seed_brokers = ['b:1']\n[sasl]\nuser = 'u'\npass = 'canary'\n", (), "no SASL mechanism"),
    ("config.yml", "contexts:\n  a: {brokers: [b:1]}\n  b: {brokers: [b:1]}\n", ("--name", "x"), "has a, b"),
    ("config.yml", "contexts:\n  a: {brokers: [b:1], sasl: {enabled: true, username: u, password: '${env:canary}'}}\n",
     (), "line 2, contexts.a: a value contains ${"),
    ("rpk.yaml", "profiles:\n  - {name: a, kafka_api: {brokers: [b:1], sasl: {user: u}}}\n", (),
     "sasl.username needs sasl.password too"),
    ("rpk.yaml", "profiles:\n" + "  - {name: a, kafka_api: {brokers: [b:1]}}\n" * 2, (), "the name 'a' twice"),
    ("kcat.conf", "enable.ssl.certificate.verification=false\nbootstrap.servers=b:1\n", (), "cannot be switched off"),
    ("kcat.conf", "bootstrap.servers=b:1\nssl.ca.location=probe\n", (), "Remove ssl.ca.location to trust the auth"),
    ("kcat.conf", "bootstrap.servers=b:1\nssl.ca.location=.\n", (), "ssl.ca.location: . is a directory"),
    ("kcat.conf", "bootstrap.servers=b:1\nsecurity.protocol=sasl_ssl\nsasl.kerberos.keytab=canary\n", (),
     "SASL GSSAPI has settings that only librdkafka knows: sasl.kerberos.keytab (line 3). Write"),
    ("client.properties", "bootstrap.servers=b:1\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
     "sasl.oauthbearer.client.secret=${env:canary}\n", (),
     "knows: sasl.oauthbearer.method (line 3), sasl.oauthbearer.client.secret (line 4). Write"),
    ("kcat.conf", KCAT % "${env:canary}", (), "line 5, sasl.password: kcat sends ${...} as it is"),
    ("kcat.conf", "bootstrap.servers = b:1\n", (), "line 1: 'bootstrap.servers ' is not the name of a setting"),
    ("config.yml", "contexts: {a: {brokers: null}}\n", (), "'a' was not made: "),
    ("rpk.yaml", "# nothing\n", (), "rpk.yaml: the file is empty"),
    ("config.toml", "", (), "config.toml: the file is empty"),
    ("config.toml", "seed_brokers = 'x", (), "config.toml: "),
    ("config.yml", "contexts: {a: {brokers: [b:1]}}\n", ("--format", "ini"), "--format must be one of properties"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "words", "message"), BAD)
def test_a_file_that_cannot_be_imported_is_named(
    imports: Imports, name: str, text: str, words: tuple[str, ...], message: str
) -> None:
    ran = imports.kt("profile", "import", imports.file(name, text), *words)
    assert ran.status in (ExitStatus.FAILED, ExitStatus.USAGE) and ran.out == ""
    assert message in ran.err and "canary" not in ran.err
    assert not imports.config.exists()


def test_yaml_without_its_package_is_refused_with_the_extra(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    ran = imports.kt("profile", "import", imports.file("rpk.yaml", RPK))
    assert ran.status == ExitStatus.USAGE and "PyYAML" in ran.err and "[yaml]" in ran.err


@pytest.mark.parametrize("text", ["", "# nothing\n", "colour=blue\n", "PK\x03\x04 binary\n"])
def test_a_file_without_a_setting_of_kafka_makes_no_profile(imports: Imports, text: str) -> None:
    path = imports.file("notes.properties", text)
    ran = imports.kt("profile", "import", path)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"{path} has no setting of Kafka's clients, so nothing was changed\n")
    assert not imports.config.exists()
