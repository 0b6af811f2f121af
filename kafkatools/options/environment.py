"""The environment variables that kt reads, for `kt --help`. A test compares them with the source."""

from __future__ import annotations

from kafkatools.options.usage import definitions

ENVIRONMENT = {
    "KT_SANDBOX": "off: require --bootstrap-server, as Kafka's scripts do. quiet: use the sandbox without naming it on "
    "stderr.",
    "KT_PROFILE": "Name of the profile to use without --profile.",
    "KT_CONFIG": "The user's file of profiles. Default: kafkatools/config.toml in XDG_CONFIG_HOME.",
    "KT_JOURNAL": "off: do not note changes for kt undo. required: refuse a change that cannot be noted.",
    "KT_HOME": "Directory of the sandbox, the journal, the completion cache and the archive of kt pipeline prepare. "
    "Default: kafkatools in XDG_DATA_HOME.",
    "KT_DEBUG": "1: print stack traces of errors and the log lines of the clients.",
    "KT_PURE_PYTHON": "1: do not use the compiled kernels.",
    "NO_COLOR": "Print no colours.",
    "TERM": "dumb: draw no progress line and do not clear the screen.",
    "COLUMNS": "Width of the output. Default: the terminal's.",
    "LINES": "Height of the screen of kt monitor. Default: the terminal's.",
    "XDG_CONFIG_HOME": "Directory of configuration files. Default: ~/.config.",
    "XDG_DATA_HOME": "Directory of data files. Default: ~/.local/share.",
    "HOME": "The home directory (~).",
    "JAVA_HOME": "Java installation for the Spark of kt pipeline. Default: java on the PATH.",
    "PATH": "Directories in which kt pipeline looks for java, and kt shims for kt and Kafka's scripts.",
    "SHELL": "The shell for which kt completion --install writes a script.",
    "ZDOTDIR": "Directory of .zshrc. Default: the home directory.",
    "OPENBLAS_NUM_THREADS": "Threads of NumPy's linear algebra, which no command uses. Default: 1.",
    "SPARK_HOME": "Spark whose JVM kt pipeline starts. Default: that of the installed PySpark.",
    "PYSPARK_PYTHON": "Python of the workers of kt pipeline. Default: the Python that runs kt.",
}
"""The effect of each variable, the variables of kt first."""


def environment_help(width: int) -> str:
    """Return the help section that lists the environment variables, wrapped to `width` columns."""
    return definitions("Environment variables", ENVIRONMENT, width, 4 + max(map(len, ENVIRONMENT))) + "\n"
