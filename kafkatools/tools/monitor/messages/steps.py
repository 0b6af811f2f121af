"""The steps between fetched records and the shown ones: decode, mask, search.

Rules: the search comes last, so that nobody can guess by searching what --mask hides. For the same reason no error of a
decoder is shown for a masked part. As in kt console-consumer, keys stay
undecoded for a search by key.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.secrets import redacted
from kafkatools.tools.lines.mask import MaskStep, parse_mask
from kafkatools.tools.lines.record_printer import Step
from kafkatools.tools.monitor.messages.cells import cell_json
from kafkatools.tools.monitor.messages.request import MessageRequest, Source
from kafkatools.tools.schemas.decoding_step import DecodingStep
from kafkatools.tools.schemas.steps import schema_decoders
from kafkatools.tools.schemas.wire_format import schema_id
from kafkatools.tools.search.search import Filter, Search

_MOST_HEADERS = 100
_HIDDEN_REASON = "its reason is hidden, since it is masked"

Row = dict[str, object]


class BadRequest(Exception):
    """A request that cannot be carried out, with the reason as a sentence."""


def search_of(request: MessageRequest) -> Search | None:
    """Return the search by key and regular expression, None without one. Raises BadRequest."""
    filters: list[Filter] = []
    if request.key is not None:
        from kafkatools.tools.search.key_filter import KeyFilter

        filters.append(KeyFilter(request.key.encode("utf-8", "surrogateescape")))
    if request.grep is not None:
        from kafkatools.tools.search.grep import PARTS, Grep

        parts = sum(PARTS[name] for name in request.grep_in)
        try:
            pattern = request.grep.encode("utf-8", "surrogateescape")
            filters.append(Grep(pattern, parts, ignores_case=request.ignores_case))
        except (re.error, OverflowError, RecursionError) as error:
            raise BadRequest(f"Invalid regular expression: {error}") from None
    return Search(filters) if filters else None


class MessageSteps:
    """The steps of one request. `note` gets a line when the registry fails."""

    def __init__(self, source: Source, request: MessageRequest, clock: Clock, note: Callable[[str], None]) -> None:
        self.search = search_of(request)
        self.not_decoded_count = 0
        self._request = request
        masks = [parse_mask(text) for text in source.masks]
        self._masked = {mask.part for mask in masks}
        self._mask = MaskStep(masks, source.hash_key) if masks else None
        self._decoded_parts: tuple[str, ...] = ()
        self._reasons: dict[tuple[int, str], str] = {}
        steps: list[Step | None] = [self._decoding(source, clock, note), self._mask, self.search]
        self._steps = [step for step in steps if step is not None]

    @property
    def masks_keys(self) -> bool:
        """Whether keys are masked."""
        return "key" in self._masked

    def _decoding(self, source: Source, clock: Clock, note: Callable[[str], None]) -> DecodingStep | None:
        registry = source.registry
        if registry is None:
            return None
        keys = registry.keys and self._request.key is None
        parts = (("key", keys), ("value", registry.values))
        self._decoded_parts = tuple(part for part, is_decoded in parts if is_decoded)
        decoders = schema_decoders(
            registry.settings, registry.url, registry.home, clock, lambda line: note(redacted(line))
        )
        return DecodingStep(decoders, keys=keys, values=registry.values, on_not_decoded=self._add_failure)

    def _add_failure(self, offset: int, part: str, reason: str) -> None:
        self.not_decoded_count += 1
        self._reasons[offset, part] = _HIDDEN_REASON if part in self._masked else redacted(reason)

    def remarks(self) -> list[str]:
        """Return the notes of the masks, such as values that were masked as a whole."""
        return [] if self._mask is None else [*self._mask.failures(), *self._mask.remarks()]

    def rows(self, fetched: FetchedColumns) -> list[Row]:
        """Return the records that pass all steps."""
        self._reasons.clear()
        raw = fetched.columns
        for step in self._steps:
            fetched = step.apply(fetched)
            if not fetched.columns.count:
                return []
        return [self._row(fetched, row, raw) for row in range(fetched.columns.count)]

    def _row(self, fetched: FetchedColumns, row: int, raw: RecordColumns) -> Row:
        columns, most = fetched.columns, self._request.cell_bytes
        offset = columns.offsets[row]
        found: Row = {
            "partition": fetched.partition,
            "offset": offset,
            "timestamp": columns.timestamps[row],
            "timestamp_type": columns.timestamp_type.label,
            "key": cell_json(columns.key(row), most),
            "value": cell_json(columns.value(row), most),
        }
        raw_row = bisect_left(raw.offsets, offset)
        for part, data_of in (("key", raw.key), ("value", raw.value)):
            cell = found[part]
            if part in self._decoded_parts and isinstance(cell, dict):
                self._mark(cell, part, offset, data_of(raw_row))
        headers = columns.raw_headers(row)
        found["headers"] = [[cell_json(name, most), cell_json(value, most)] for name, value in headers[:_MOST_HEADERS]]
        found["header_count"] = len(headers)
        return found

    def _mark(self, cell: dict[str, object], part: str, offset: int, data: bytes | None) -> None:
        """Add to a cell the schema that decoded it, or the reason why it was not decoded."""
        reason = self._reasons.get((offset, part))
        if reason is not None:
            cell["not_decoded"] = reason
        elif data is not None and (number := schema_id(data)):
            cell["schema"] = number
