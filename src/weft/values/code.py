"""PTX, its parameters and its source lines, as they pass between stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.records import dataclass


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter as declared in C++, e.g. name 'x', type 'float const*'."""

    name: str
    ctype: str


@dataclass(frozen=True)
class Ptx:
    """PTX text and its origin.

    entries     C++ spelling -> name of the `.entry` (`saxpy<float>` -> `_Z5saxpyIfE...`)
    signatures  entry name -> its C++ parameters; unknown ones are missing
    sources     file name as in the PTX `.file` directive -> text, to quote lines in errors
    warnings    compiler warnings, each with its location
    """

    text: str
    arch: str
    origin: str
    entries: Mapping[str, str] = field(default_factory=dict)
    signatures: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The origin and the kernels with their parameters, for JSON."""
        kernels = [
            {
                "name": name,
                "entry": entry,
                "parameters": [vars(p) for p in self.signatures.get(entry, ())],
            }
            for name, entry in self.entries.items()
        ]
        return {"file": self.origin, "arch": self.arch, "kernels": kernels}


@dataclass(frozen=True)
class SourceLine:
    """A source location, with the chain of inlined calls around it.

    quote  the text of the line, for files of the user
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
        """The innermost line in a file of the user, outside of libraries."""
        line: SourceLine | None = self
        # Only files of the user have quotes.
        while line is not None and not line.quote:
            line = line.inlined_at
        return line or self

    @property
    def calls(self) -> str:
        """The inlined calls around it, as the continuation of a sentence."""
        out, outer = "", self.inlined_at
        while outer is not None:
            out, outer = f"{out}, inlined at {outer}", outer.inlined_at
        return out
