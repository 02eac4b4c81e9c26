"""An opcode is described by its row: no module outside `ptx/isa` knows opcodes by name.

The test walks the syntax tree of every module. It reports
 - a comparison of an opcode (`ins.parts`, `.opcode`, `row.base`, or a variable that holds one) with
   a literal, a `match` on it, a method such as `startswith` with a literal, and a look-up of it in
   a literal collection;
 - in modules that deal with instructions, a literal collection made of opcodes alone.

Words of an opcode after its first are not opcodes. `isa.Decoded` names what they say (`d.order`),
so a search for one (`"volatile" in ins.parts`) is reported as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.ptx.isa import lookup, rows

ROOT = Path(weft.__file__).parent
BASES = frozenset(row.base for row in rows())

OPERATIONS = "operations of atom, red and redux: words of their rows' modifier `op`"
EXCEPTIONS = {
    ("device/sim/memory/atomics.py", "REDUCES"): OPERATIONS,
    ("device/sim/tools/counters/watcher.py", "NATIVE_ATOMICS"): OPERATIONS,
    ("measure/profile/prediction/assembled.py", "_MERGED"): OPERATIONS,
    ("device/sim/memory/atomics.py", "self.op in ('add', 'min', 'max')"): OPERATIONS,
}
"""(module, name of the collection or its comparison) -> why its words are not opcodes."""


def modules() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if "ptx/isa/" not in p.as_posix()]


def findings(text: str, module: str) -> list[str]:
    """`line: what` of every place in a module that knows an opcode by its name."""
    if "weft.ptx" not in text and ".opcode" not in text:
        return []  # it deals with no instructions
    tree = ast.parse(text)
    collections = dict(_collections(tree))
    out = []
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.Lambda | ast.Module):
            held = _held(scope)
            out += [x for node in _own(scope) for x in _uses(node, held, collections)]
    named = {id(node): name for name, node in collections.items()}
    compared = {
        id(x): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for x in node.comparators
    }
    for node in ast.walk(tree):
        words = _literals(node)
        if len(words) < 2 or not all(_base(w) in BASES for w in words):
            continue
        comparison = compared.get(id(node))
        name = ast.unparse(comparison) if comparison else named.get(id(node), "")
        if (module, name) not in EXCEPTIONS:
            out.append(f"{node.lineno}: a collection of opcodes: {' '.join(sorted(words))}")
    return sorted(set(out))


def _base(text: str) -> str:
    return text.partition(".")[0]


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _own(child)


def _collections(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names that are assigned a literal collection, and the collection."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            target, value = node.target.id, node.value
        else:
            continue
        if isinstance(value, ast.Call) and value.args:  # frozenset({...})
            value = value.args[0]
        if _literals(value):
            yield target, value


def _literals(node: ast.AST) -> set[str]:
    """The strings of a literal tuple, list or set, or the keys of a dict; none if others are in."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items: list[ast.expr | None] = [*node.elts]
    elif isinstance(node, ast.Dict):
        items = [*node.keys]
    else:
        return set()
    texts = {x.value for x in items if isinstance(x, ast.Constant) and isinstance(x.value, str)}
    return texts if items and len(texts) == len(items) else set()


def _is_opcode(node: ast.AST, held: set[str]) -> bool:
    """Return whether an expression gives an opcode, or its first word."""
    if isinstance(node, ast.Name):
        return node.id in held
    if isinstance(node, ast.Attribute):
        of_row = isinstance(node.value, ast.Attribute) and node.value.attr == "row"
        return node.attr == "opcode" or (node.attr == "base" and of_row)
    if isinstance(node, ast.Subscript):
        index = node.slice
        first = isinstance(index, ast.Constant) and index.value == 0
        slices = isinstance(index, ast.Slice) and index.lower is None
        return (first or slices) and _is_parts(node.value, held)
    return False


def _is_parts(node: ast.AST, held: set[str]) -> bool:
    """Return whether an expression gives the words of an opcode."""
    if isinstance(node, ast.Attribute):
        return node.attr == "parts"
    if isinstance(node, ast.Name):
        return node.id == "parts" or f"{node.id}[]" in held
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("split", "partition") and _is_opcode(node.func.value, held)
    return False


def _held(scope: ast.AST) -> set[str]:
    """Variables of a function that hold an opcode, or (`x[]`) its words."""
    held: set[str] = set()
    if isinstance(scope, ast.FunctionDef):
        held = {x.arg for x in scope.args.args if x.arg in ("base", "opcode")}
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for node in _own(scope):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts, strict=False)
            else:
                pairs.append((target, value))
    for target, value in pairs:
        if isinstance(target, ast.Name) and _is_opcode(value, held):
            held.add(target.id)
        elif isinstance(target, ast.Name) and _is_parts(value, held):
            held.add(f"{target.id}[]")
    return held


def _uses(node: ast.AST, held: set[str], collections: dict[str, ast.AST]) -> Iterator[str]:
    """Places at which an opcode is held against literals."""

    def literal(x: ast.AST) -> bool:
        if isinstance(x, ast.Name):
            return x.id in collections
        return bool(_literals(x)) or (isinstance(x, ast.Constant) and isinstance(x.value, str))

    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        among = isinstance(node.ops[0], ast.In | ast.NotIn) and _is_parts(sides[1], held)
        opcode = any(_is_opcode(x, held) or _is_parts(x, held) for x in sides)
        if literal(node.left) if among else opcode and any(map(literal, sides)):
            yield f"{node.lineno}: {ast.unparse(node)}"
    elif isinstance(node, ast.Match) and _is_opcode(node.subject, held):
        yield f"{node.lineno}: match {ast.unparse(node.subject)}"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method, of = node.func.attr, node.func.value
        starts = method in ("startswith", "endswith") and _is_opcode(of, held)
        looks = method in ("get", "index", "count") and literal(of)
        if starts or (looks and any(_is_opcode(x, held) for x in node.args)):
            yield f"{node.lineno}: {ast.unparse(node)}"
    elif isinstance(node, ast.Subscript) and literal(node.value) and _is_opcode(node.slice, held):
        yield f"{node.lineno}: {ast.unparse(node)}"
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
    ):
        inside = [x for part in node.args for x in ast.walk(part)]
        yield from [f"{node.lineno}: {ast.unparse(node)}" for x in inside if _is_opcode(x, held)]


def test_no_module_knows_an_opcode_by_name() -> None:
    """One test of all modules: one each would take longer to start than to run."""
    found = {
        module: known
        for path in modules()
        if (known := findings(path.read_text(), module := path.relative_to(ROOT).as_posix()))
    }
    assert found == {}


PLANTED = {
    "comparison": 'def f(ins):\n    return ins.parts[0] == "ld"',
    "membership": 'def f(ins):\n    return ins.parts[0] in ("st", "atom")',
    "named set": 'KINDS = {"ld": 1, "st": 2}\ndef f(ins):\n    return KINDS.get(ins.parts[0])',
    "variable": 'def f(ins):\n    base = ins.parts[0]\n    if base != "bra":\n        return 1',
    "two at once": 'def f(ins):\n    x, y = ins.parts[0], 1\n    return x == "exit"',
    "match": 'def f(ins):\n    match ins.parts[0]:\n        case "mov":\n            return 1',
    "prefix": 'def f(ins):\n    return ins.opcode.startswith("fma")',
    "first words": 'def f(ins):\n    return ins.parts[:2] == ("cp", "async")',
    "whole": 'def f(ins):\n    return ins.parts == ("or", "b32")',
    "split": 'def f(x):\n    name = x.opcode.split(".")[0]\n    return name == "brx"',
    "among the words": 'def f(ins):\n    return "ldmatrix" in ins.parts',
    "a later word": 'def f(ins):\n    return "volatile" in ins.parts',
    "by attribute": 'def f(self, ins):\n    return getattr(self, "_" + ins.parts[0])',
    "row": 'def f(d):\n    return d.row.base == "call"',
    "list": 'EFFECTS = ("st", "atom", "trap")',
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_comparison_is_reported(text: str) -> None:
    assert findings(f"from weft.ptx import isa\n{text}", "planted.py")


ALLOWED = {
    "a word": 'def f(ins):\n    return decode(ins).order == "volatile"',
    "a type": 'def f(ins):\n    return ins.parts[-1] == "f32"',
    "a new instruction": 'def f(add):\n    add("mov.u64", 1)',
    "a column": "def f(d):\n    return d.row.form is Result.SUM",
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_what_is_not_an_opcode_is_passed_over(text: str) -> None:
    assert findings(f"from weft.ptx import isa\n{text}", "planted.py") == []


def test_every_exception_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.EXCEPTIONS", {})
    for module, _ in EXCEPTIONS:
        assert findings((ROOT / module).read_text(), module), f"{module} needs no exception"


DECODED = {
    "ld.shared::cta.v2.f32": {"space": "shared", "elements": 2, "lane_bytes": 8, "type": "f32"},
    "ld.param::entry.u64": {"space": "param", "lane_bytes": 8, "elements": 1},
    "ld.global.nc.L2::cache_hint.u32": {"is_read_only": True, "has_cache_hint": True},
    "ld.acquire.gpu.b32": {"space": "generic", "order": "acquire", "scope": "gpu"},
    "ld.global.cg.u32": {"cache_operator": "cg", "is_read_only": False, "order": ""},
    "atom.global.add.u32": {"operation": "add", "space": "global", "wide": False},
    "membar.cta": {"scope": "cta"},
    "mul.wide.s32": {"wide": True, "rounding": "", "ftz": False},
    "mul.rn.ftz.sat.f32": {"rounding": "rn", "ftz": True, "sat": True},
    "setp.lt.and.s32": {"comparison": "lt", "operation": "and"},
    "shfl.sync.bfly.b32": {"mode": "bfly"},
    "cvta.to.local.u64": {"space": "local", "from_generic": True},
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": {"vector_length": 4, "elements": 1},
    "cp.async.bulk.commit_group": {"is_bulk": True},
}


@pytest.mark.parametrize("opcode", DECODED)
def test_the_words_of_an_opcode_are_decoded(opcode: str) -> None:
    decoded = lookup(tuple(opcode.split(".")))
    assert {name: getattr(decoded, name) for name in DECODED[opcode]} == DECODED[opcode]
