"""Variables and scopes of functions, with the places of their values."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.ptx.debug_info.types import Type


@dataclass(frozen=True)
class Location:
    """The place of a variable between two PTX lines: a register, or a symbol and an offset."""

    first: int
    end: int
    register: str = ""
    symbol: str = ""
    offset: int = 0

    def holds_at(self, line: int) -> bool:
        """Return whether it is the place before the instruction of this line executes."""
        return self.first < line < self.end


@dataclass(frozen=True)
class Variable:
    """A variable; without locations it has been optimised away."""

    name: str
    type: Type
    locations: tuple[Location, ...] = ()
    constant: int | None = None
    line: int = 0
    is_parameter: bool = False

    def location(self, line: int) -> Location | None:
        """Its place before the instruction of a PTX line executes; None while it has none."""
        return next((x for x in self.locations if x.holds_at(line)), None)


@dataclass
class Scope:
    """A function, an inlined call or a block between two PTX lines."""

    first: int
    end: int
    name: str = ""
    linkage: str = ""
    variables: list[Variable] = field(default_factory=list)
    inner: list[Scope] = field(default_factory=list)

    def holds(self, line: int) -> bool:
        """Return whether the instruction of a PTX line is inside."""
        return self.first < line < self.end

    def around(self, line: int) -> list[Scope]:
        """The scopes around a PTX line, from the outermost, which is this one."""
        for scope in self.inner:
            if scope.holds(line):
                return [self, *scope.around(line)]
        return [self]
