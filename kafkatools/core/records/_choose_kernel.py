"""Load the record kernels and the codec from their Python sources if KT_PURE_PYTHON=1, even if compiled ones exist.
Imported for this effect, before the kernels."""

from __future__ import annotations

import os
import sys

from kafkatools.core.kernels import KERNELS


def _load_source(name: str) -> None:
    import importlib.machinery
    import types

    full_name = f"kafkatools.core.{name}"
    if full_name in sys.modules:
        return
    core = os.path.dirname(os.path.dirname(__file__))
    loader = importlib.machinery.SourceFileLoader(full_name, os.path.join(core, *name.split(".")) + ".py")
    module = types.ModuleType(full_name)
    module.__file__ = loader.path
    module.__loader__ = loader
    module.__package__ = full_name.rpartition(".")[0]
    sys.modules[full_name] = module
    loader.exec_module(module)


# a switch for tests and for finding out whether a fault lies in the compiler; nothing else in core reads the
# environment
if os.environ.get("KT_PURE_PYTHON") == "1":  # noqa: TID251
    for _name in KERNELS:
        _load_source(_name)
