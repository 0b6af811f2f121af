"""The check that the packages of an extra are installed."""

from __future__ import annotations

from importlib.util import find_spec

from kafkatools.core.install_command import install_command
from kafkatools.pipeline.errors import PipelineError


def ensure_installed(*packages: str, extra: str = "sql") -> None:
    """Raise PipelineError for the first of the packages that is not installed; it names the extra to install."""
    for package in packages:
        if find_spec(package) is None:
            raise PipelineError(f"The Python package {package} is not installed: {install_command(extra)}")
