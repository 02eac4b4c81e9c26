"""Facts for the report of a bug: versions, the machine, settings, and a launch that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Argument:
    """An argument of a launch: never its value."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Failure:
    """The error that ended a file, and the launch that raised it.

    kind       the class of the error
    what       its first line, without the values that it quotes
    where      file and line
    frames     the lines of the user's files that led to it, as "file:line"
    kernel     the kernel and its launch, or ""
    sources    file name -> text of the kernel's source
    """

    kind: str
    what: str
    where: str = ""
    frames: tuple[str, ...] = ()
    kernel: str = ""
    arguments: tuple[Argument, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BugReport:
    """The facts of a report, by section; every section maps a name to a text."""

    versions: Mapping[str, str]
    machine: Mapping[str, str]
    settings: Mapping[str, str]
    file: str = ""
    failure: Failure | None = None

    def to_dict(self) -> dict[str, object]:
        """All facts, for JSON."""
        return asdict(self)
