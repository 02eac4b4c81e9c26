"""Function bodies: instructions, labels, scopes and what is declared among them."""

from __future__ import annotations

import re
from collections.abc import Callable

from weft.errors import PtxError
from weft.ptx import declare, isa
from weft.ptx.isa.columns import Control
from weft.ptx.lexer import NAME, PtxText, brief
from weft.ptx.lines import LOC, SourceLines
from weft.ptx.model import (
    CallSite,
    Imm,
    Instruction,
    Label,
    Operand,
    Param,
    PtxFunction,
    Reg,
    Sym,
    Vec,
)
from weft.ptx.operands import operands, split
from weft.ptx.scope import MAX_REGISTERS, Scope, labels_within

# One statement. The lookahead after the opcode keeps `name :` for the label alternative. No two
# patterns of blanks meet, here and in the patterns below: hostile text would make them quadratic.
_STATEMENT = re.compile(
    rf"""\s*(?:
      (?:@\s*(?:(!)\s*)?({NAME})\s+)?
      ([a-z]\w*(?:(?:\.|::)\w+)*)(?![\w.$:]|\s*:) ([^;]*) ;
    | ({LOC})
    | ({NAME})\s*:(?!:) (?: \s*\.(branchtargets|calltargets|callprototype)(?!\w) ([^;]*) ; )?
    | ([{{}}])
    | \.(\w+) ([^;]*) ;
    )""",
    re.A | re.X,
)
_INSTRUCTION, _LOC, _LABEL, _LIST, _BRACE, _DIRECTIVE = 4, 5, 6, 8, 9, 11
_CALL = re.compile(
    rf"(?:\(([^()]*)\)\s*,\s*)?({NAME})(?:\s*,\s*\(([^()]*)\))?(?:\s*,\s*({NAME}))?", re.A
)
_PROTOTYPE = re.compile(
    rf"(?:\(([^()]*)\)\s*)?{NAME}(?:\s*\(([^()]*)\))?(?:\s*\.[a-z_]+(?:\s+[0-9]+)?)*", re.A
)
_IGNORED = ("pragma", "tex")
_CALLS = isa.bases(lambda row: row.control is Control.CALL)
_MOVES = isa.bases(lambda row: row.is_load or row.is_store)


def read_body(
    text: PtxText, lines: SourceLines, function: PtxFunction, pos: int
) -> tuple[int, set[str]]:
    """Fill `function` from the `{` at `pos`; gives the end and the names the module must have."""
    body = _BodyReader(text, lines, function)
    end = body.read(pos + 1)
    # Labels at the level of the function may be used before they stand, so they count as names from
    # outside until the body has ended.
    return end, body.scope.outside - body.labels


class _BodyReader:
    def __init__(self, text: PtxText, lines: SourceLines, function: PtxFunction) -> None:
        self.text, self.lines, self.function = text, lines, function
        self.scope = Scope(function)
        self.scopes = 0
        self.register_count = 0
        self.index = 0
        self.counted, self.line = 0, 1
        self.labels: set[str] = set()
        self.inner_labels: dict[int, list[str]] = {}
        self.open_scopes = 1
        self.parts: dict[str, tuple[str, ...]] = {}
        self.handlers: dict[int, Callable[[re.Match[str]], None]] = {
            _INSTRUCTION: self._instruction,
            _LOC: self._loc,
            _LABEL: self._label,
            _LIST: self._list,
            _BRACE: self._brace,
            _DIRECTIVE: self._directive,
        }
        lines.start_function()
        for param in (*function.params, *function.returns):
            if param.is_register:
                self.scope.declare_register(param.name, param.type, 0, None)
            else:
                self.scope.declare(param.name)

    def read(self, pos: int) -> int:
        source, text, handlers = self.text, self.text.text, self.handlers
        self.counted, self.line = pos, source.line_at(pos)
        while self.open_scopes:
            source.pos = pos
            found = _STATEMENT.match(text, pos)
            if found is None:
                raise self._unreadable(pos)
            handlers[found.lastindex or 0](found)
            pos = found.end()
        # An error after the body must not be attributed to its last source line.
        source.loc = None
        return pos

    def _instruction(self, found: re.Match[str]) -> None:
        negated, guard, opcode, arguments = found.group(1, 2, 3, 4)
        start = found.start(3)
        # Counted on from the last instruction: counting from the start each time is quadratic.
        self.line += self.text.text.count("\n", self.counted, start)
        self.counted = start
        # A body repeats few opcodes: each is split once, and its instructions share the tuple.
        parts = self.parts.get(opcode)
        if parts is None:
            parts = self.parts[opcode] = tuple(opcode.split("."))
        if parts[0] in _CALLS:
            given: tuple[Operand, ...] = (self._call(arguments),)
        else:
            given = operands(arguments, self.scope) if arguments.strip() else ()
            if "{" in arguments and parts[0] in _MOVES:
                given = tuple(_only(operand) for operand in given)
        text = " ".join(found.group().split())
        guard = self._guard(guard) if guard else None
        negative, loc = negated == "!", self.text.loc
        self.function.body.append(
            Instruction(opcode, parts, given, guard, negative, self.line, text, loc, self.index)
        )
        self.index += 1

    def _unreadable(self, pos: int) -> PtxError:
        got = self.text.excerpt(pos)
        if got == "end of text":
            return PtxError(
                f"the body of {brief(self.function.name)} is not closed", got=got, allowed="}"
            )
        return PtxError(
            "not a statement",
            got=got,
            allowed="an instruction or declaration that ends in ;, a label, { or }",
        )

    def _guard(self, name: str) -> str:
        found = self.scope.find(name)
        if not isinstance(found, Reg) or self.function.registers[found.name] != "pred":
            raise PtxError(
                "a guard is not a predicate",
                got=f"@{brief(name)}",
                allowed="a register declared with .reg .pred",
            )
        return found.name

    def _loc(self, found: re.Match[str]) -> None:
        self.text.loc = self.lines.at(found.group(_LOC))

    def _label(self, found: re.Match[str]) -> None:
        self.function.body.append(Label(self._new_label(found.group(_LABEL))))

    def _new_label(self, name: str) -> str:
        unique = name + self.scope.suffix
        if unique in self.labels:
            raise PtxError("a label stands twice in one scope", got=brief(name))
        self.labels.add(unique)
        return unique

    def _list(self, found: re.Match[str]) -> None:
        """`name: .branchtargets a, b;` and its two relatives."""
        name, kind, content = self._new_label(found.group(6)), found.group(7), found.group(8)
        if kind == "callprototype":
            self.function.prototypes[name] = self._prototype(content)
            return
        names = operands(content, self.scope)
        targets = tuple(target.name for target in names if isinstance(target, Sym))
        if len(targets) != len(names):
            raise PtxError(f".{kind} lists names only", got=brief(content))
        lists = self.function.branch_targets if kind[0] == "b" else self.function.call_targets
        lists[name] = targets

    @staticmethod
    def _prototype(text: str) -> tuple[tuple[Param, ...], tuple[Param, ...]]:
        found = _PROTOTYPE.fullmatch(text.strip())
        if found is None:
            raise PtxError("not a prototype", got=brief(text), allowed="(returns) _ (parameters)")
        returns, params = (declare.parameters(group or "")[0] for group in found.groups())
        return tuple(returns), tuple(params)

    def _brace(self, found: re.Match[str]) -> None:
        if found.group(_BRACE) == "{":
            self.open_scopes += 1
            self.scopes += 1
            self.scope = Scope(self.function, self.scope, f".{self.scopes}")
            # One scan at the outermost inner scope finds the labels of all scopes nested in it.
            if self.open_scopes == 2:
                self.inner_labels = labels_within(self.text.text, found.end())
            self.scope.add_labels(self.inner_labels.get(found.end(), []))
            return
        self.open_scopes -= 1
        self.scope = self.scope.parent or self.scope

    def _directive(self, found: re.Match[str]) -> None:
        word, content = found.group(10, 11)
        if word == "reg":
            self._registers(content)
        elif word in declare.SPACES:
            for variable in declare.variables(word, content):
                variable.name = self.scope.declare(variable.name)
                self.function.variables[variable.name] = variable
        elif word not in _IGNORED:
            allowed = " ".join(f".{name}" for name in ("reg", *declare.SPACES, "pragma", "loc"))
            raise PtxError(
                "not a directive of a body", got=f".{brief(word + content)}", allowed=allowed
            )

    def _registers(self, content: str) -> None:
        for name, type, lanes, count in declare.registers(content):
            self.register_count += 1 if count is None else count
            if self.register_count > MAX_REGISTERS:
                raise PtxError(
                    "too many registers",
                    got=brief(name),
                    allowed=f"at most {MAX_REGISTERS} in a function",
                )
            self.scope.declare_register(name, type, lanes, count)

    def _call(self, text: str) -> Reg | Sym:
        """Record the call beside its instruction; the operand is the called function."""
        found = _CALL.fullmatch(text.strip())
        if found is None:
            raise PtxError(
                "not a call",
                got=brief(text),
                allowed="call (return), function, (arguments), prototype;",
            )
        returns, target, arguments, prototype = found.groups()
        (callee,) = operands(target, self.scope)
        if not isinstance(callee, Reg | Sym):
            raise PtxError("not something to call", got=brief(target), allowed="a name, a register")
        self.function.calls[self.index] = CallSite(
            callee,
            self._names(returns),
            self._names(arguments),
            self._names(prototype)[0] if prototype else None,
        )
        return callee

    def _names(self, text: str | None) -> tuple[str, ...]:
        if not text or not text.strip():
            return ()
        named = []
        for piece, operand in zip(split(text), operands(text, self.scope), strict=True):
            if isinstance(operand, Reg | Sym):
                named.append(operand.name)
            elif isinstance(operand, Imm):
                named.append(str(operand.value))
            else:
                raise PtxError("not an argument", got=brief(piece), allowed="names and integers")
        return tuple(named)


def _only(operand: Operand) -> Operand:
    """`{%r1}`, a vector of one, is `%r1`."""
    return operand.items[0] if isinstance(operand, Vec) and len(operand.items) == 1 else operand
