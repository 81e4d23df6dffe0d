"""What a way of writing tool calls is: its tags, who reads it, and what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Tools
from dataclasses import dataclass

from maxi_mlx.core.request import Tool
from maxi_mlx.text.source import Reading
from maxi_mlx.text.tool_calls import call_shapes as shapes
from maxi_mlx.text.tool_calls.json_calls import read_bare_object
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.shape import JsonBySchema, Literal, Sequence, Shape

Read = Callable[[ToolCallReader, str], Reading[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSyntax:
    """One way of writing calls.

    ``begin_tags`` begin one call or several. ``other_tags`` stand inside a call. ``group_begin``,
    ``separator`` and ``group_end`` stand before, between and after calls that are written together.
    """

    name: str
    begin_tags: tuple[str, ...]
    end_tags: tuple[str, ...]
    reading: Read
    call_shape: shapes.CallShape
    other_tags: tuple[str, ...] = ()
    group_begin: str = ""
    separator: str = ""
    group_end: str = ""
    bare_reading: Read | None = read_bare_object

    @property
    def tags(self) -> tuple[str, ...]:
        """Texts whose special tokens must be made visible for a reader to see them."""
        return (*self.begin_tags, *self.end_tags, *self.other_tags)

    @property
    def writes_json(self) -> bool:
        """Whether arguments are one JSON object, so that one of any keys can be written."""
        shape = self.call_shape(Tool(name="any", parameters=shapes.ANY_OBJECT))
        return isinstance(shape, Sequence) and any(
            isinstance(part, JsonBySchema) for part in shape.parts
        )

    @property
    def reads_bare(self) -> bool:
        return self.bare_reading is not None

    def read(self, reader: ToolCallReader, tag: str) -> Reading[None]:
        return self.reading(reader, tag)

    def read_bare(self, reader: ToolCallReader, start: str) -> Reading[None]:
        assert self.bare_reading is not None
        return self.bare_reading(reader, start)

    def grammar_parts(self, tools: Tools[Tool], *, is_parallel: bool = True) -> Shape:
        """The text of at least one call of any of ``tools``, at most one unless ``is_parallel``."""
        call = shapes.any_of(tuple(self.call_shape(tool) for tool in tools))
        calls = shapes.repeated(call, is_parallel=is_parallel, separator=self.separator)
        return Sequence((Literal(self.group_begin), calls, Literal(self.group_end)))
