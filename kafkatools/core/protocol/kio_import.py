"""How kio's generated message classes are loaded: one schema module at a time, and never its test support.

kio registers strategies with hypothesis when that is installed, which costs a developer's shell 130 ms per command. It
is a test library, so it is out of reach while the first module of kio loads, unless a test has loaded it already.
"""

import importlib
import sys
from types import ModuleType

_TEST_LIBRARY = "hypothesis"


def load(module_name: str) -> ModuleType:
    """A module of kio by its full name."""
    if "kio.static._phantom" in sys.modules or _TEST_LIBRARY in sys.modules:
        return importlib.import_module(module_name)
    sys.modules[_TEST_LIBRARY] = None  # type: ignore[assignment]  # importing it raises ImportError, as if not installed
    try:
        return importlib.import_module(module_name)
    finally:
        del sys.modules[_TEST_LIBRARY]
