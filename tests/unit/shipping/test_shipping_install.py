"""`.ci/install` gives uv the configuration of pip, and leaves the installation to pip if uv has no counterpart."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]
INSTALL: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "install"))


def _variables(settings: dict[str, str]) -> dict[str, str]:
    environ = INSTALL["environ_of_uv"](settings)
    return {name: environ[name] for name in INSTALL["SETTINGS"].values() if name in environ}


@pytest.fixture(autouse=True)
def _no_variables_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in INSTALL["SETTINGS"].values():
        monkeypatch.delenv(name, raising=False)


def test_settings_of_pip_become_variables_of_uv(tmp_path: pathlib.Path) -> None:
    settings = {
        "index-url": "https://packages.example/simple",
        "cert": "/etc/ssl/corporate.pem",
        "find-links": f"{tmp_path}\nhttps://packages.example/wheels /nowhere",
        "disable-pip-version-check": "1",
    }
    assert _variables(settings) == {
        "UV_DEFAULT_INDEX": "https://packages.example/simple",
        "SSL_CERT_FILE": "/etc/ssl/corporate.pem",
        "UV_FIND_LINKS": f"{tmp_path},https://packages.example/wheels",
    }


def test_variable_of_uv_has_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://other.example/simple")
    assert _variables({"index-url": "https://packages.example/simple"}) == {
        "UV_DEFAULT_INDEX": "https://other.example/simple"
    }


def test_setting_without_counterpart_is_left_to_pip() -> None:
    assert INSTALL["environ_of_uv"]({"client-cert": "/etc/ssl/client.pem"}) is None


def test_option_of_the_environment_has_precedence(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pip.conf"
    text = "[global]\ntimeout = 7\nindex-url = https://a.example/\n[install]\nno-index = yes\n[list]\nuser = x\n"
    path.write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    monkeypatch.setenv("PIP_INDEX_URL", "https://b.example/")
    settings = INSTALL["pip_settings"]()
    assert (settings["timeout"], settings["index-url"], settings["no-index"]) == ("7", "https://b.example/", "yes")
    assert "user" not in settings
