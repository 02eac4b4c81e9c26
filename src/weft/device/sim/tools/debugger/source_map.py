"""Relates instructions to source lines, functions, calls and the places of variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.debug_info import DebugInfo, Location, Scope, Type, Variable
from weft.ptx.debug_info.types import BASIC, UNKNOWN, array_of
from weft.ptx.instance import RETURN
from weft.ptx.model import Instruction, Label, Sym
from weft.records import dataclass
from weft.values import SourceLine

_SHARED = re.compile(
    r"__shared__\s+(?:(?:__align__|alignas)\s*\([^)]*\)\s*)?(?:volatile\s+)?"
    r"([A-Za-z_][\w:]*(?:\s+(?:int|long|char|short))*)\s+([A-Za-z_]\w*)\s*((?:\[[^\]]*\]\s*)*)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function under execution: the instruction, and the prefix of the function's registers."""

    function: str
    ins: Instruction
    prefix: str

    @property
    def line(self) -> SourceLine | None:
        """The user's line."""
        return None if self.ins.loc is None else self.ins.loc.own


class SourceMap:
    """The lines, functions and variables of a kernel."""

    def __init__(self, program: KernelProgram, info: DebugInfo, sources: Mapping[str, str]) -> None:
        self.program, self.info, self.sources = program, info, sources
        self.code: list[Instruction] = []
        self.prefixes: list[str] = []
        self._callers: dict[str, list[Instruction]] = {}
        prefix = ""
        for item in program.function.body:
            if isinstance(item, Label):
                name = item.name
                prefix = name.removesuffix("entry") if name.endswith(":entry") else prefix
                continue
            self.code.append(item)
            self.prefixes.append(prefix)
            target = item.operands[0] if item.operands else None
            if isinstance(target, Sym) and target.name.endswith(":entry"):
                self._callers.setdefault(target.name.removesuffix("entry"), []).append(item)

    # ---- lines ------------------------------------------------------------------------------
    @functools.cached_property
    def starts(self) -> list[int]:
        """The instructions at which a line begins: after another line, or in a new block."""
        first = [b.code[0] if b.code else b.last for b in self.program.graph.blocks]
        heads = {ins.index for ins in first if ins is not None}
        out, before = [], None
        for ins in self.code:
            line = None if _is_prologue(ins) else self.line_of(ins)
            if line is not None and (line != before or ins.index in heads):
                out.append(ins.index)
            before = line
        return out

    def line_of(self, ins: Instruction) -> tuple[str, int] | None:
        """File and number of the user's line; None for code without one."""
        return None if ins.loc is None else (ins.loc.own.file, ins.loc.own.line)

    def lines(self, file: str | None = None) -> list[int]:
        """The lines of a file that have code; by default of the kernel's own file."""
        found = {self.line_of(ins) for ins in self.code if not _is_prologue(ins)}
        return sorted(x[1] for x in found if x is not None and self._is_in(x[0], file))

    def _is_in(self, file: str, wanted: str | None) -> bool:
        """Return whether a file is the one that is wanted, which may be the end of its path."""
        name = wanted or self.file
        return file == name or file.endswith(f"/{name}")

    @functools.cached_property
    def file(self) -> str:
        """The file of the kernel's first line; empty without line information."""
        lines = (self.line_of(ins) for ins in self.code)
        return next((x[0] for x in lines if x is not None), "")

    def stops(self, line: int, file: str | None = None) -> list[int]:
        """The first instruction of a line, in every copy of its function."""
        out, seen = [], set()
        for ins in self.code:
            at = self.line_of(ins)
            if at is None or at[1] != line or not self._is_in(at[0], file):
                continue
            if not _is_prologue(ins):
                prefix = self.prefixes[ins.index]
                if prefix not in seen:
                    seen.add(prefix)
                    out.append(ins.index)
        return out

    def quote(self, file: str, line: int) -> str:
        """The text of a line; empty where the source is not known."""
        text = self.sources.get(file, "").splitlines()
        return text[line - 1] if 0 < line <= len(text) else ""

    # ---- calls ------------------------------------------------------------------------------
    def function_of(self, ins: Instruction) -> str:
        """The C++ name of the function that an instruction belongs to."""
        scope = self.info.function_at(ins.ptx_line)
        if scope is not None:
            return scope.name
        prefix = self.prefixes[ins.index]
        return prefix.split(":")[0] if prefix else self.program.function.name

    def depth(self, index: int) -> int:
        """Calls around an instruction, as far as they are the same for all threads."""
        prefix, depth = self.prefixes[index], 0
        while prefix and len(self._callers.get(prefix, ())) >= 1 and depth < 64:
            prefix = self.prefixes[self._callers[prefix][0].index]
            depth += 1
        return depth

    def frame(self, ins: Instruction) -> Frame:
        """The innermost frame at an instruction."""
        return Frame(self.function_of(ins), ins, self.prefixes[ins.index])

    def callers(self, prefix: str) -> Sequence[Instruction]:
        """The instructions that call an instance of a function."""
        return self._callers.get(prefix, ())

    @staticmethod
    def return_register(prefix: str) -> str:
        """The register with the number of the call site, where there are several."""
        return prefix + RETURN

    # ---- variables --------------------------------------------------------------------------
    def scopes(self, frame: Frame) -> list[Scope]:
        """The scopes around an instruction, from the innermost."""
        function = self.info.function_at(frame.ins.ptx_line)
        return [] if function is None else function.around(frame.ins.ptx_line)[::-1]

    def variables(self, frame: Frame) -> dict[str, Variable]:
        """The variables that are visible at an instruction, by name; shared ones are apart."""
        out: dict[str, Variable] = {}
        for scope in self.scopes(frame):
            own: dict[str, Variable] = {}
            for variable in scope.variables:
                # Triton gives a name to several values; the last one that has a place is meant.
                if variable.name not in own or self.place(frame, variable) is not None:
                    own[variable.name] = variable
            out = {**own, **out}
        for variable in self.info.variables:
            out.setdefault(variable.name, variable)
        return out

    @functools.cached_property
    def shared(self) -> dict[str, tuple[str, Type]]:
        """Shared variables by their C++ name: the symbol of PTX, and the declared type."""
        symbols = [n for n, (space, _) in self.program.symbols.items() if space == "shared"]
        declared = [x for text in self.sources.values() for x in _SHARED.findall(text)]
        out: dict[str, tuple[str, Type]] = {}
        for symbol in symbols:
            for kind, name, sizes in declared:
                if symbol == name or re.search(rf"{len(name)}{name}(?:E?_\d+)?\Z", symbol):
                    out[name] = symbol, self._array(symbol, " ".join(kind.split()), sizes)
        return out

    def _array(self, symbol: str, kind: str, sizes: str) -> Type:
        element = BASIC.get(kind) or self.info.types.get(kind, UNKNOWN)
        held = (self.program.module.variables, self.program.function.variables)
        total = next((v[symbol].size for v in held if symbol in v), 0)
        counts = [x.strip() for x in re.findall(r"\[([^\]]*)\]", sizes)]
        if not counts:
            return element
        known = [int(x) if x.isdecimal() else 0 for x in counts]
        size = element.size or 1
        for i, count in enumerate(known):
            if count == 0:  # a name: it follows from the size of the whole, if it is the only one
                others = size
                for k, other in enumerate(known):
                    others *= other if k != i else 1
                known[i] = total // others if others else 0
        return array_of(element, known if all(known) else [total // size])

    def place(self, frame: Frame, variable: Variable) -> Location | None:
        """The place of a variable before the instruction of a frame."""
        return variable.location(frame.ins.ptx_line)

    def registers(self, frame: Frame) -> list[str]:
        """The registers of PTX of a frame's function, as PTX names them."""
        names = self.program.function.registers
        return sorted(
            (n.removeprefix(frame.prefix) for n in names if _of(n, frame.prefix)), key=_natural
        )


def _is_prologue(ins: Instruction) -> bool:
    """Return whether it fetches parameters: compilers give such code the column 0."""
    return ins.loc is not None and ins.loc.column == 0


def _of(name: str, prefix: str) -> bool:
    return name.startswith(prefix + "%") if prefix else name.startswith("%")


def _natural(name: str) -> tuple[str, int]:
    digits = name[len(name.rstrip("0123456789")) :]
    return name.rstrip("0123456789"), int(digits or 0)
