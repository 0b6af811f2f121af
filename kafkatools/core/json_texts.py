"""Parse JSON that others wrote: lines, files, answers of servers, and tokens."""

from __future__ import annotations

import json
import sys
from typing import Any


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON with the options of json.loads; hooks that convert numbers may raise ArithmeticError. Raises
    ValueError, also for JSON that is nested too deeply and for numbers that Python does not convert; its subclass
    json.JSONDecodeError has the position."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ArithmeticError:  # Decimal of an exponent beyond its limits
        raise ValueError("the exponent of a number is too large") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError(f"a number has more than {sys.get_int_max_str_digits()} digits") from None
