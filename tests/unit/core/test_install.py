"""What an installation reports of itself: the compiled kernels and the command that installs an extra."""

from __future__ import annotations

import pathlib

import pytest

from kafkatools.core import kernels
from kafkatools.core.install_command import install_command
from kafkatools.core.kernels import KERNELS, compiled_kernels

CORE = pathlib.Path(__file__).parents[3] / "kafkatools" / "core"


def test_every_module_with_c_types_is_a_kernel() -> None:
    typed = {".".join(path.relative_to(CORE).with_suffix("").parts) for path in CORE.rglob("*.pxd")}
    assert typed == set(KERNELS)


def test_kernels_of_another_interpreter_do_not_count() -> None:
    assert compiled_kernels([".cpython-39-x86_64-linux-gnu.so"]) == ()


@pytest.mark.parametrize(
    ("files", "counted"),
    [
        (("_cyutility.so", "records/_kernel.so"), ("records._kernel",)),
        (("records/_kernel.so",), ()),
        (("_cyutility.so",), ()),
    ],
)
def test_kernels_count_only_beside_the_module_that_they_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, files: tuple[str, ...], counted: tuple[str, ...]
) -> None:
    (tmp_path / "records").mkdir()
    for file in files:
        (tmp_path / file).touch()
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
    assert compiled_kernels([".so"]) == counted


def test_extras_are_installed_by_name_only_from_a_release() -> None:
    assert install_command("sql", is_release=True) == "pip install 'kafkatools[sql]'"
    assert install_command("sql", is_release=False) == "pip install '.[sql]' in a checkout of kafkatools"


def test_messages_take_the_command_from_there() -> None:
    sources = {path.name for path in CORE.parent.rglob("*.py") if "pip install 'kafkatools[" in path.read_text()}
    assert sources == {"install_command.py"}
