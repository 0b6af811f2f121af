"""CRC-32C, from the package crc32c: import it from here.

The package reads its own version from installed metadata at import, which takes 30 ms of a command's start. Here its
extension module is loaded alone. The function is the package's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

Crc = Callable[..., int]


def _load() -> Crc:
    """Return the function of the extension module, or that of the package if the extension cannot be found alone."""
    package = PathFinder.find_spec("crc32c") if "crc32c" not in sys.modules else None
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            alone: Crc = module.crc32c
            return alone
    import crc32c as whole

    function: Crc = whole.crc32c
    return function


crc32c = _load()
"""crc32c(data, value=0) -> the checksum, as in the package."""
