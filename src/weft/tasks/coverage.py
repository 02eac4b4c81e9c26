"""The coverage of PTX by the instruction table: families of rows, and near misses."""

from __future__ import annotations

import difflib
import functools
import importlib
import math
from collections.abc import Iterator

from weft.errors import Error
from weft.ptx.isa import InstructionRow, lookup, rows
from weft.values.coverage import Coverage, CoveredFamily, CoveredOpcode, CoveredRow, Modifier


def coverage() -> Coverage:
    """The families of rows, sorted by name."""
    by_file: dict[str, list[InstructionRow]] = {}
    for row in rows():
        by_file.setdefault(home(row), []).append(row)
    return Coverage(
        tuple(
            CoveredFamily(module.rpartition(".")[2], _title(module), tuple(map(_shown, members)))
            for module, members in sorted(by_file.items(), key=lambda item: item[0].split(".")[-1])
        )
    )


def of_opcode(opcode: str) -> list[CoveredRow] | CoveredOpcode:
    """The rows of a base opcode, or the row that accepts a full one; raise where none does."""
    # Before `lookup`, which gives one row: a base opcode such as `exit` may be complete by itself.
    if matches := rows(opcode):
        return list(map(_shown, matches))
    if decoded := lookup(opcode.split(".")):
        words = {name: word for name, word in decoded.words.items() if word}
        return CoveredOpcode(opcode, _shown(decoded.row), words)
    raise near(opcode)


def _shown(row: InstructionRow) -> CoveredRow:
    return CoveredRow(
        syntax=row.syntax,
        opcode=row.base,
        modifiers=tuple(Modifier(name, tuple(w), optional) for name, w, optional in modifiers(row)),
        forms=forms(row),
        vectors=tuple(row.vectors),
        warp=row.warp,
        notes=row.notes,
        file=home(row).replace(".", "/") + ".py",
        manual=row.manual,
    )


def home(row: InstructionRow) -> str:
    """The module a row is written in."""
    function = row.function
    # Rows that a loop adds are partials of one function; the module is that of the function.
    while isinstance(function, functools.partial):
        function = function.func
    return str(function.__module__)


def forms(row: InstructionRow) -> int:
    """The number of full opcodes of a row: all combinations of its modifiers.

    Optional modifiers of warp-wide rows do not count: orders, scopes, state spaces and cache hints
    would multiply to millions.
    """
    sizes = ((len(row.modifiers.get(name, ".")), optional) for name, optional in row.parts)
    return math.prod(n + optional for n, optional in sizes if not (optional and row.warp))


def modifiers(row: InstructionRow) -> Iterator[tuple[str, list[str], bool]]:
    """(name, values, whether it is optional) of each modifier of a row."""
    for name, optional in row.parts:
        if name in row.modifiers:
            yield name, sorted(row.modifiers[name], key=_numeric), optional


def near(opcode: str) -> Error:
    """The error for an opcode that no row accepts, with similar ones."""
    base, *words = opcode.split(".")
    opcodes = sorted({row.base for row in rows()})
    if base not in opcodes:
        close = difflib.get_close_matches(base, opcodes, 5)
        hint = f"did you mean {', '.join(close)}?" if close else "`weft isa` lists every opcode"
        return Error(f"no row for the opcode {base}", got=opcode, next=hint)
    taken = {word for row in rows(base) for word in _words(row)}
    wrong = [word for word in words if word not in taken]
    close = difflib.get_close_matches(wrong[0], sorted(taken), 3) if wrong else []
    hint = f"did you mean .{', .'.join(close)}?" if close else f"`weft isa {base}` shows the rows"
    return Error(
        f"no row of {base} takes {'.' + wrong[0] if wrong else 'these modifiers together'}",
        got=opcode,
        allowed="\n           ".join(_shape(row) for row in rows(base)),
        next=hint,
    )


def covered(opcode: str) -> bool:
    """Return True if a row accepts this full opcode."""
    return lookup(opcode.split(".")) is not None


def _shape(row: InstructionRow) -> str:
    """A row's opcode with its types, which distinguish rows of the same syntax."""
    types = next((words for name, words, _ in modifiers(row) if name == "type"), [])
    return " ".join([row.syntax.partition(" ")[0], *([f"(type: {' '.join(types)})"] * bool(types))])


def _words(row: InstructionRow) -> Iterator[str]:
    for name, _ in row.parts:
        yield from row.modifiers.get(name, (name,))


def _title(module: str) -> str:
    """The first sentence of a module's docstring."""
    text = " ".join((importlib.import_module(module).__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".")


def _numeric(word: str) -> tuple[str, int]:
    """A sort key that orders u8 u16 u32."""
    letters = word.rstrip("0123456789")
    return letters, int(word[len(letters) :] or 0)
