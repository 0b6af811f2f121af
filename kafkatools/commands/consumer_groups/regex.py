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
    if args.json:
        console.print_json({"regex": text, "valid": problem is None, "error": problem})
    elif problem is None:
        console.print(f"The regular expression `{text}` is valid.")
    else:
        console.print(f"The regular expression `{text}` is invalid: {problem}.")
    return ExitStatus.OK if problem is None else ExitStatus.FINDINGS
