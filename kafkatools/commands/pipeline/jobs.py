"""The jobs that people ask for, in the order of the help."""

from __future__ import annotations

from kafkatools.commands.pipeline.check import COMMAND as CHECK
from kafkatools.commands.pipeline.count import COMMAND as COUNT
from kafkatools.commands.pipeline.diff import COMMAND as DIFF
from kafkatools.commands.pipeline.export import COMMAND as EXPORT
from kafkatools.commands.pipeline.forecasts import COMPACTION, RETENTION
from kafkatools.commands.pipeline.profile import COMMAND as PROFILE
from kafkatools.commands.pipeline.replay import COMMAND as REPLAY
from kafkatools.commands.pipeline.top_keys import COMMAND as TOP_KEYS

JOBS = (EXPORT, COUNT, TOP_KEYS, DIFF, CHECK, REPLAY, RETENTION, COMPACTION, PROFILE)
