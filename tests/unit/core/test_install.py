"""What an installation reports of itself: the compiled kernels and the command that installs an extra."""

from __future__ import annotations

import pathlib

from kafkatools.core.install_command import install_command
from kafkatools.core.kernels import KERNELS, compiled_kernels

CORE = pathlib.Path(__file__).parents[3] / "kafkatools" / "core"


def test_every_module_with_c_types_is_a_kernel() -> None:
    typed = {".".join(path.relative_to(CORE).with_suffix("").parts) for path in CORE.rglob("*.pxd")}
    assert typed == set(KERNELS)


def test_kernels_of_another_interpreter_do_not_count() -> None:
    assert compiled_kernels([".cpython-39-x86_64-linux-gnu.so"]) == ()
    assert compiled_kernels([".py"]) == KERNELS


def test_extras_are_installed_by_name_only_from_a_release() -> None:
    assert install_command("sql", is_release=True) == "pip install 'kafkatools[sql]'"
    assert install_command("sql", is_release=False) == "pip install '.[sql]' in a checkout of kafkatools"


def test_messages_take_the_command_from_there() -> None:
    sources = {path.name for path in CORE.parent.rglob("*.py") if "pip install 'kafkatools[" in path.read_text()}
    assert sources == {"install_command.py"}
