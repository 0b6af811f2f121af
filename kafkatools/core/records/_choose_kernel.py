"""Imported for its effect, before the kernels: with KT_PURE_PYTHON=1 they are loaded from their sources even where
compiled ones lie beside.
"""

from __future__ import annotations

import importlib.machinery
import os
import pathlib
import sys
import types

KERNELS = ("_kernel", "_kernel_text", "_scan_kernel", "_dump_kernel", "_clean_kernel", "_gather_kernel")


def _load_source(name: str) -> None:
    full_name = f"{__package__}.{name}"
    if full_name in sys.modules:
        return
    loader = importlib.machinery.SourceFileLoader(full_name, str(pathlib.Path(__file__).with_name(name + ".py")))
    module = types.ModuleType(full_name)
    module.__file__ = loader.path
    module.__loader__ = loader
    module.__package__ = __package__
    sys.modules[full_name] = module
    loader.exec_module(module)


# a switch for tests and for finding out whether a fault lies in the compiler; nothing else in core reads the
# environment
if os.environ.get("KT_PURE_PYTHON") == "1":  # noqa: TID251
    for _name in KERNELS:
        _load_source(_name)
