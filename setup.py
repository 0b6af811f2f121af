"""The one optional extension: the record kernel, compiled when Cython and a C compiler are there, plain Python otherwise."""

import os

from setuptools import Extension, setup

KERNEL = "kafkatools.core.records._kernel"


def extensions() -> list[Extension]:
    """The extensions to build; none when KT_PURE_PYTHON=1 or Cython is missing."""
    if os.environ.get("KT_PURE_PYTHON") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    source = KERNEL.replace(".", "/") + ".py"
    extension = Extension(KERNEL, [source], optional=True, extra_compile_args=["-O3"])
    built: list[Extension] = cythonize([extension], language_level=3)
    return built


setup(ext_modules=extensions())
