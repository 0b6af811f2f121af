"""kt apply and --from-cluster are inverse: random declared states come back, in TOML, YAML and JSON, read by other
people's parsers; and the YAML files, which name lines in errors."""

from __future__ import annotations

import json
import pathlib
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus
from kafkatools.tools.declared.writing import file_lines

NOWHERE = ("--bootstrap-server", "127.0.0.1:9")
Tree = dict[str, Any]

# -- random states --

_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(str.strip)
_TOPIC_NAMES = st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9.-]{0,20}", fullmatch=True)
_CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "retention.ms": st.integers(-1, 10**15),
        "retention.bytes": st.integers(-1, 10**15),
        "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "min.cleanable.dirty.ratio": st.sampled_from(["0.25", "0.99"]),
        "compression.type": st.sampled_from(["zstd", "producer"]),
        "preallocate": st.sampled_from(["true", "false"]),
        "min.insync.replicas": st.integers(1, 3),
    },
)
_TOPICS = st.dictionaries(
    _TOPIC_NAMES,
    st.fixed_dictionaries({"partitions": st.integers(1, 4), "replication": st.just(1)}, optional={"configs": _CONFIGS}),
    max_size=4,
)
_PRINCIPALS = _TEXT.map("User:{}".format)
_COMMON = {"principal": _PRINCIPALS, "operations": st.just(["Describe", "Read"])}
_HOSTS = _TEXT.filter(lambda host: host != "*")  # the default, which is not written back
_OPTIONAL = {"permission": st.just("deny"), "host": _HOSTS, "pattern": st.just("prefixed")}
_ACLS = st.lists(
    st.one_of(
        st.fixed_dictionaries({**_COMMON, "topic": _TOPIC_NAMES}, optional=_OPTIONAL),
        st.fixed_dictionaries({**_COMMON, "group": _TEXT}, optional=_OPTIONAL),
        st.fixed_dictionaries({"principal": _PRINCIPALS, "cluster": st.just(True), "operations": st.just(["Alter"])}),
    ),
    max_size=4,
    unique_by=lambda acl: json.dumps(acl, sort_keys=True),
)
_RATES = st.fixed_dictionaries(
    {"producer_byte_rate": st.integers(1, 2**40)}, optional={"request_percentage": st.sampled_from([0.5, 12.25, 300])}
)
_ENTITIES = st.one_of(
    st.fixed_dictionaries({"user": _TEXT}, optional={"client-id": _TEXT}),
    st.fixed_dictionaries({"client-id": _TEXT}),
    st.just({"user-defaults": True}),
    st.just({"client-defaults": True}),
)
_QUOTAS = st.lists(st.tuples(_ENTITIES, _RATES), max_size=3, unique_by=lambda pair: json.dumps(pair[0], sort_keys=True))
_MECHANISMS = st.sets(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), min_size=1)
_USERS = st.dictionaries(
    _TEXT, _MECHANISMS.map(lambda names: {name: {"iterations": 4096} for name in sorted(names)}), max_size=2
)
_STATES = st.fixed_dictionaries(
    {"topics": _TOPICS, "acls": _ACLS, "quotas": _QUOTAS.map(lambda pairs: [a | b for a, b in pairs]), "users": _USERS}
)


def _normal(tree: Tree) -> Tree:
    """A state without empty parts, with lists in a fixed order."""
    topics = {
        name: {key: value for key, value in topic.items() if value != {}}
        for name, topic in tree.get("topics", {}).items()
    }
    lists = {
        kind: sorted(tree.get(kind, []), key=lambda item: json.dumps(item, sort_keys=True))
        for kind in ("acls", "quotas")
    }
    state = {"topics": topics, **lists, "users": tree.get("users", {})}
    return {kind: section for kind, section in state.items() if section}


def _with_passwords(tree: Tree) -> Tree:
    users = {
        user: {name: {**credential, "password-env": "PW"} for name, credential in mechanisms.items()}
        for user, mechanisms in tree.get("users", {}).items()
    }
    return {**tree, **({"users": users} if users else {})}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    with embedded_broker(tmp_path_factory.mktemp("broker"), **settings) as address:
        yield address


@pytest.mark.slow
def test_a_random_state_comes_back_from_the_cluster(broker: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("states")

    def kt(*words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
        ran = run_kt("apply", "--bootstrap-server", broker, *words, cwd=directory, environ={"PW": "open sesame"})
        assert ran.status == status, (words, ran.out, ran.err)
        return ran

    @settings(max_examples=25, deadline=None)
    @given(_STATES)
    def check(state: Tree) -> None:
        (directory / "nothing.toml").write_text("acls = []\nquotas = []\n[topics]\n[users]\n")
        kt("nothing.toml", "--prune", "--yes")
        declared = _with_passwords(_normal(state))
        text = "\n".join(file_lines(declared, "toml"))
        assert tomllib.loads(text) == declared
        (directory / "state.toml").write_text(text, encoding="utf-8")
        kt("state.toml", "--yes")

        assert _normal(json.loads(kt("--from-cluster", "--json").out or "{}")) == _normal(state)
        written = kt("--from-cluster").out
        assert _normal(tomllib.loads(written)) == _normal(state)
        (directory / "written.toml").write_text(written, encoding="utf-8")
        kt("written.toml", "--prune", "--check")

    check()


# -- YAML --


@pytest.mark.slow
@given(_STATES)
def test_yaml_is_read_by_its_own_parser(state: Tree) -> None:
    yaml = pytest.importorskip("yaml")
    assert (yaml.safe_load("\n".join(file_lines(_normal(state), "yaml"))) or {}) == _normal(state)


def _mistake(directory: pathlib.Path, text: str, *more: str) -> list[str]:
    pytest.importorskip("yaml")
    (directory / "state.yaml").write_text(text, encoding="utf-8")
    ran = run_kt("apply", *NOWHERE, "state.yaml", *more, cwd=directory)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, ""), ran.err
    return ran.err.splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics:\n  t:\n    partitions: six", "line 3, topics.t.partitions: must be a whole number, not 'six'"),
        ("topics:\n  t:\n    partitons: 6", "line 3, topics.t.partitons: unknown key 'partitons'"),
        ("topics:\n  t: {}\n  u: {}\n  t: {}", "line 4, topics.t: the key is already in line 2"),
        (
            "topics:\n  t: {}\n---\ntopics:\n  t: {}",
            "line 5, topics.t: topic t is already declared in state.yaml, line",
        ),
        (
            "topics: {t: {configs: {retention.ms: 2026-02-31}}}",
            'line 1, topics.t.configs."retention.ms": day is out',
        ),
        ("topics:\n  - t", "line 2, topics: must be a table of keys, not a list"),
        ("topics:\n  [a]: {}", "line 2, topics: a key must be text"),
        ("topics: {t: [1", "line 2, column 1: did not find expected ',' or ']'"),
        ("topics: !!python/object/apply:os.getcwd []", "line 1, topics: must be a table of keys, not a list"),
        ("topics: &a {t: *a}", "the values are nested too deeply"),
        ("topics: " + "[" * 20_000, "line 1: the values are nested too deeply"),
        ("- " * 20_000, "line 1: the values are nested too deeply"),
        ("acls:\n- principal: User:a\n  topic: t\n  operations: [Raed]", "line 4, acls[0].operations[0]: 'Raed' is no"),
        ("acls:", "line 1, acls: must be a list, not empty"),
    ],
)
def test_a_mistake_in_yaml_names_the_line(tmp_path: pathlib.Path, text: str, message: str) -> None:
    (first, *_) = _mistake(tmp_path, text)
    separator = ": " if message.startswith("the values") else ", "
    assert first.startswith(f"state.yaml{separator}{message}"), first


@pytest.mark.slow
def test_aliases_of_aliases_are_bounded(tmp_path: pathlib.Path) -> None:
    levels = [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 9)]
    (first, *_) = _mistake(tmp_path, "\n".join(["x0: &x0 [a]", *levels]))
    assert first == "state.yaml: its aliases stand for more than 100000 values"


def test_merged_keys_and_several_documents(broker: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "state.yml").write_text(
        "topics:\n"
        "  one: &small {partitions: 2, configs: &old {retention.ms: 1h, preallocate: no}}\n"
        "  two: {<<: *small, partitions: 3}\n"
        "  yes: {configs: {<<: *old, cleanup.policy: [compact, delete]}}\n"
        "---\n"
        "# nothing\n"
        "---\n"
        "topics: {'007': }\n",
        encoding="utf-8",
    )
    ran = run_kt("apply", "--bootstrap-server", broker, "state.yml", "--dry-run", cwd=tmp_path)
    assert ran.out.splitlines() == [
        "+ topic one: partitions=2, retention.ms=3600000, preallocate=false",
        "+ topic two: partitions=3, retention.ms=3600000, preallocate=false",
        "+ topic yes: retention.ms=3600000, preallocate=false, cleanup.policy=compact,delete",
        "+ topic 007",
        "Plan: 4 to create, 0 to change, 0 to delete.",
    ]
