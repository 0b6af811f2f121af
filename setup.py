"""The optional extensions: the kernels, compiled when Cython and a C compiler are there, plain Python otherwise."""

import os
import pathlib
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from kafkatools.core.kernels import KERNELS  # noqa: E402

LEVEL = () if "-O" in os.environ.get("CFLAGS", "") else ("-O3",)  # who chooses a level gets it
# 64-bit sums wrap as Java's do; Python's own flags bring -g, which makes a kernel three times as large
UNIX_FLAGS = (*LEVEL, "-g0", "-fwrapv")
# pairs of numbers that were just written one by one would be read back as one, which costs half of the loop's time
MORE_UNIX_FLAGS = {"kafkatools.core.records._gather_kernel": ("-fno-tree-slp-vectorize",)}
LINK_FLAGS = ("-Wl,-s",) if sys.platform == "linux" else ()  # without the table of symbols
MSVC_FLAGS = ("/O2",)  # its signed sums wrap anyway


class BuildKernels(build_ext):
    """Compiles with the flags that the compiler at hand understands, one kernel for each core at a time."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()  # an option of setup() does not reach an editable installation

    def build_extension(self, ext: Extension) -> None:
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args = [*MSVC_FLAGS]
        else:
            ext.extra_compile_args = [*UNIX_FLAGS, *MORE_UNIX_FLAGS.get(ext.name, ())]
            ext.extra_link_args = [*LINK_FLAGS]
        super().build_extension(ext)


def extensions() -> list[Extension]:
    """The extensions to build; none when KT_PURE_PYTHON=1 or Cython is missing, or for a command that compiles nothing."""
    if os.environ.get("KT_PURE_PYTHON") == "1" or sys.argv[1:2] in (["egg_info"], ["dist_info"], ["sdist"]):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = []
    for name in KERNELS:
        source = f"kafkatools/core/{name.replace('.', '/')}"
        modules.append(Extension(f"kafkatools.core.{name}", [f"{source}.py"], depends=[f"{source}.pxd"]))
    # the branches for plain Python are unreachable by design
    built: list[Extension] = cythonize(modules, language_level=3, compiler_directives={"warn.unreachable": False})
    for extension in built:
        extension.optional = os.environ.get("KT_REQUIRE_KERNELS") != "1"
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
