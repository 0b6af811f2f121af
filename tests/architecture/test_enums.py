"""Members of an Enum are distinct. Two members with equal values are one member with two names, so that `is` and tables
by member mix up what they stand for, without an error."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from enum import Enum

import kafkatools


def enums() -> set[type[Enum]]:
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(kafkatools.__path__, "kafkatools.")]
    return {
        member
        for module in modules
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, Enum) and member.__module__.startswith("kafkatools.")
    }


def test_no_enum_has_two_names_for_one_member() -> None:
    found = enums()
    assert len(found) > 30
    aliases = {
        f"{each.__qualname__}.{name}": member.name
        for each in found
        for name, member in each.__members__.items()
        if name != member.name
    }
    assert aliases == {}
