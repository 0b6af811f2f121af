"""Stands for the module `cython` in kernels that run as plain Python, where Cython need not be installed."""

import contextlib

compiled = False
nogil = contextlib.nullcontext()
