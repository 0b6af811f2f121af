"""Rules of sasl.kerberos.principal.to.local.rules; the cases are those of Apache Kafka's KerberosNameTest."""

from __future__ import annotations

import pytest

from kafkatools.core.broker.security.kerberos_names import KerberosNames, NoName
from kafkatools.core.errors import ConfigError

RULES = (
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[1:$1@$0](.*@FOO)s/@.*//L",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("Admin@FOO", "admin"),
        ("simple", "simple"),
    ],
)
def test_first_rule_that_applies_decides(principal: str, name: str) -> None:
    assert KerberosNames.parse(RULES, "REALM.COM").name_of(principal) == name


def test_substitution_of_one_or_of_all_matches_and_upper_case() -> None:
    once, every = (KerberosNames.parse([f"RULE:[1:$1]s/a/b/{flag}"], "R").name_of("banana@R") for flag in ("", "g"))
    assert (once, every) == ("bbnana", "bbnbnb")
    assert KerberosNames.parse(["RULE:[1:$1.$0]/U"], "R").name_of("user@Realm") == "USER.REALM"


@pytest.mark.parametrize(
    ("rules", "principal", "message"),
    [
        (["DEFAULT"], "user@OTHER", "No rule of sasl.kerberos.principal.to.local.rules applies to user@OTHER"),
        (["DEFAULT"], "a/b/c@REALM", "Malformed Kerberos name: a/b/c@REALM"),
        (["RULE:[1:$1@$0]"], "user@REALM", "Non-simple name user@REALM"),
    ],
)
def test_principal_without_a_name_is_refused(rules: list[str], principal: str, message: str) -> None:
    with pytest.raises(NoName, match=message):
        KerberosNames.parse(rules, "REALM").name_of(principal)


@pytest.mark.parametrize(
    "rule",
    ["default", "RULE:[1:$1", "RULE:[1:$2]", "RULE:[1:$1](a[)", "RULE:[1:$1]s/a/$1/", "DEFAULT/L/g", "RULE:[1:$1]/X"],
)
def test_malformed_rule_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="sasl.kerberos.principal.to.local.rules"):
        KerberosNames.parse([rule], "REALM")
