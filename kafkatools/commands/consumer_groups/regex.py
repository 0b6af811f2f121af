"""kt consumer-groups --validate-regex: do brokers take a regular expression? (ConsumerGroupCommand.validateRegex)"""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def validate(console: Console, args: Args) -> ExitStatus:
    """Says whether the expression is valid; one that is not ends with exit status 3, a finding."""
    from kafkatools.core.java.re2_syntax import syntax_error

    text = args.validate_regex
    problem = syntax_error(text)
    outcome = "valid" if problem is None else f"invalid: {problem}"
    row = {"regex": text, "valid": problem is None, "error": problem}
    console.print(f"The regular expression `{text}` is {outcome}.", row)
    return ExitStatus.OK if problem is None else ExitStatus.FINDINGS
