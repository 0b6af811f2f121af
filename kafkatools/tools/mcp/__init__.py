"""The tools of `kt mcp`, a server of the Model Context Protocol: a tool is a command of kt with checked arguments.

`tool.py` describes a tool, `reading_tools.py` and `changing_tools.py` are the tables, `arguments.py` checks a call,
`command_runs.py` runs the command, `answers.py` bounds its rows, `plans.py` keeps planned changes, `server.py` speaks
the protocol.
"""
