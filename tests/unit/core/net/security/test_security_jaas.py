"""sasl.jaas.config, against what Apache Kafka's JaasConfig makes of the same texts."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkatools.core.errors import ConfigError
from kafkatools.core.net.security.jaas import parse_jaas_config

CASES = json.loads((Path(__file__).parents[4] / "golden/security/jaas_configs.json").read_text())
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize("case", CASES, ids=[str(number) for number in range(len(CASES))])
def test_entries_are_those_of_kafka(case: dict[str, Any]) -> None:
    entries = case.get("entries", [])
    if len(entries) == 1:
        module = parse_jaas_config(case["text"])
        assert (module.name, dict(module.options)) == (entries[0]["module"], entries[0]["options"])
        return
    with pytest.raises(ConfigError):
        parse_jaas_config(case["text"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PLAIN} required username=a password=x", "JAAS config entry not terminated by semi-colon"),
        (f"{PLAIN} required username=a password=12;", "Value not specified for key 'password' in JAAS config"),
        (f"{PLAIN} maybe username=a;", "Invalid login module control flag 'maybe' in JAAS config"),
        ("", "Login module not specified in JAAS config"),
        (f"{PLAIN} required; {PLAIN} required;", "contains 2 login modules, should be 1 module"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "JndiLoginModule is not known"),
    ],
)
def test_what_is_wrong_is_told_in_kafkas_words(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_jaas_config(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{PLAIN} required username=a password=half$whole#canary;",
        f"{PLAIN} required username=a password=half canary;",
        f"{PLAIN} required username=a password='half\ncanary';",
    ],
)
def test_pieces_of_a_password_are_in_no_error(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas_config(text)
    assert "canary" not in str(caught.value) and "half" not in str(caught.value)


def test_options_are_not_in_the_repr() -> None:
    module = parse_jaas_config(f'{PLAIN} required username="a" password="canary";')
    assert "canary" not in repr(module)
