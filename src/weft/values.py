"""The small frozen values that pass from stage to stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter as C++ declares it, e.g. name 'x', type 'float const*'."""

    name: str
    ctype: str


@dataclass(frozen=True)
class Ptx:
    """PTX text and what is known about where it came from.

    entries     C++ spelling -> name of the `.entry` (`saxpy<float>` -> `_Z5saxpyIfE...`)
    signatures  entry name -> its C++ parameters (absent where unknown)
    sources     file name as PTX's `.file` spells it -> text, to quote lines in errors
    warnings    what the compiler warned of, each with its place
    """

    text: str
    arch: str
    origin: str
    entries: Mapping[str, str] = field(default_factory=dict)
    signatures: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceLine:
    """A place in a source, with the chain of calls that were inlined around it.

    quote  the text of the line, where the file is the user's own
    """

    file: str
    line: int
    column: int = 0
    inlined_at: SourceLine | None = None
    function: str = ""
    quote: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def own(self) -> SourceLine:
        """The innermost line that the user wrote: outside of the libraries that it calls."""
        line: SourceLine | None = self
        while line is not None and not line.quote:
            line = line.inlined_at
        return line or self

    @property
    def calls(self) -> str:
        """The calls around it, as a sentence goes on."""
        out, outer = "", self.inlined_at
        while outer is not None:
            out, outer = f"{out}, inlined at {outer}", outer.inlined_at
        return out
