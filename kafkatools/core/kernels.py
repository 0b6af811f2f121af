"""The kernels: modules that run as Python and, compiled by setup.py, as C.

One table for the build, for the choice between both forms (`records/_choose_kernel.py`) and for `kt --version`.
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES

KERNELS = (
    "records._kernel",
    "records._kernel_text",
    "records._scan_kernel",
    "records._dump_kernel",
    "records._clean_kernel",
    "records._gather_kernel",
    "records._format_kernel",
    "records._search_kernel",
    "records._avro_kernel",
    "records._arrow_kernel",
    "records._record_kernel",
    "protocol._codec",
    "producer._collect_kernel",
)
"""Modules below `kafkatools.core`."""
SHARED_KERNEL = "_cyutility"
"""The compiled module with Cython's memory views, below `kafkatools.core`. Every compiled kernel imports it."""


def compiled_kernels(suffixes: list[str] = EXTENSION_SUFFIXES) -> tuple[str, ...]:
    """Return the kernels that are installed in compiled form for this interpreter; none without the module that they
    import."""
    core = os.path.dirname(__file__)

    def is_compiled(name: str) -> bool:
        place = os.path.join(core, *name.split("."))
        return any(os.path.exists(place + suffix) for suffix in suffixes)

    return tuple(filter(is_compiled, KERNELS)) if is_compiled(SHARED_KERNEL) else ()
