"""The optional extensions: the kernels, compiled when Cython and a C compiler are there, plain Python otherwise."""

import os

from setuptools import Extension, setup

RECORDS = "kafkatools.core.records"
RECORD_KERNELS = (
    "_kernel",
    "_kernel_text",
    "_scan_kernel",
    "_dump_kernel",
    "_clean_kernel",
    "_gather_kernel",
    "_format_kernel",
    "_search_kernel",
    "_avro_kernel",
    "_arrow_kernel",
)
KERNELS = (*(f"{RECORDS}.{name}" for name in RECORD_KERNELS), "kafkatools.core.protocol._codec")
# pairs of numbers that were just written one by one would be read back as one, which costs half of the loop's time
MORE_FLAGS = {f"{RECORDS}._gather_kernel": ("-fno-tree-slp-vectorize",)}


def extensions() -> list[Extension]:
    """The extensions to build; none when KT_PURE_PYTHON=1 or Cython is missing."""
    if os.environ.get("KT_PURE_PYTHON") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    level = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]  # who chooses a level gets it
    modules = []
    for name in KERNELS:
        source = name.replace(".", "/")
        # -fwrapv: 64-bit sums wrap as Java's do
        modules.append(
            Extension(
                name,
                [f"{source}.py"],
                depends=[f"{source}.pxd"],
                optional=True,
                extra_compile_args=[*level, "-g0", "-fwrapv", *MORE_FLAGS.get(name, ())],
            )
        )
    # the branches for plain Python are unreachable by design
    built: list[Extension] = cythonize(modules, language_level=3, compiler_directives={"warn.unreachable": False})
    for extension in built:
        extension.optional = True  # cythonize makes new ones and forgets it
    return built


setup(ext_modules=extensions(), options={"build_ext": {"parallel": True}})  # one C compiler for each core
