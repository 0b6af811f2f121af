"""A stand-in for the module `cython` when a kernel runs as plain Python, where Cython may be missing."""

import contextlib

compiled = False
nogil = contextlib.nullcontext()
