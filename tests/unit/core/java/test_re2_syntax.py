"""Regular expressions judged as RE2/J judges them (tests/golden/re2)."""

import json
import pathlib

from kafkatools.core.java.re2_syntax import syntax_error

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "re2" / "syntax.json"


def test_every_recorded_expression_is_judged_alike() -> None:
    wrong = [
        (pattern, problem, syntax_error(pattern))
        for pattern, problem in json.loads(GOLDEN.read_text())
        if syntax_error(pattern) != problem
    ]
    assert wrong == []
