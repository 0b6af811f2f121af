"""The configurations of docs/security.md: each is one that a client takes."""

import re
from pathlib import Path

import pytest

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.net.security.jaas import parse_jaas_config
from kafkatools.options.properties import parse_properties

PAGE = (Path(__file__).parents[5] / "docs/security.md").read_text()
BLOCKS = re.findall(r"```properties\n(.*?)```", PAGE.partition("## TLS and SASL of the embedded broker")[0], re.S)


@pytest.mark.parametrize("text", BLOCKS)
def test_settings_of_the_page_are_known(text: str) -> None:
    config = Config(tables.ADMIN, parse_properties(text))
    assert config.explicit()
    if config.sasl_jaas_config is not None:
        parse_jaas_config(config.sasl_jaas_config.value)


def test_page_has_a_configuration_of_every_kind() -> None:
    found = set(re.findall(r"sasl.mechanism=(\S+)", "".join(BLOCKS)))
    assert {"PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"} == found
    assert len(BLOCKS) >= 12
