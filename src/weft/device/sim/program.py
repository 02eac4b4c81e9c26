"""A kernel ready for emission: decoded instructions, control flow, forms, what must be blended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.device.sim import lattice, validate
from weft.device.sim.form import AFFINE, UNIFORM, UNKNOWN, ZERO, Form, constant, meet, vector
from weft.device.sim.special import Shape, special_form
from weft.ptx import cfg, isa
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.link import link
from weft.ptx.model import (
    FloatImm,
    Function,
    Imm,
    Instruction,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Sym,
    Vec,
)
from weft.ptx.normalise import normalise

CARRY = "%cc"


def is_warp_sync(ins: Instruction) -> bool:
    """Lanes of the warp meet here before anything happens."""
    return "sync" in ins.parts and not is_block_barrier(ins) and ins.parts[0] != "barrier"


def is_block_barrier(ins: Instruction) -> bool:
    """A barrier at which a warp waits for other warps."""
    return (
        ins.parts[0] in ("bar", "barrier") and "warp" not in ins.parts and "arrive" not in ins.parts
    )


def may_wait(ins: Instruction) -> bool:
    """A loop around such an instruction may be waiting for another thread."""
    kind = ins.parts[0]
    if kind == "ld":
        return any(x in ins.parts for x in ("volatile", "relaxed", "acquire", "mmio"))
    return kind in ("atom", "mbarrier", "nanosleep")


def spin_heads(graph: Graph) -> set[int]:
    """Where loops start that may be waiting for another thread."""
    return {
        head
        for head, members in graph.loops.items()
        if any(may_wait(i) for m in members for i in graph.blocks[m].code)
    }


@dataclass(slots=True)
class Program:
    """One kernel for one block shape."""

    module: Module
    function: Function
    shape: Shape
    decoded: dict[int, isa.Decoded] = field(default_factory=dict)
    graph: Graph = field(default_factory=lambda: Graph([], [], [], {}))
    forms: dict[str, Form] = field(default_factory=dict)
    divergent: set[int] = field(default_factory=set)
    partial: list[bool] = field(default_factory=list)
    waiting: list[set[int]] = field(default_factory=list)
    blend: list[set[str]] = field(default_factory=list)
    raw_nan: set[str] = field(default_factory=set)
    scattered: set[int] = field(default_factory=set)
    symbols: dict[str, tuple[str, int]] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0

    @property
    def threads(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def warps(self) -> int:
        return (self.threads + 31) // 32

    @property
    def full_warps(self) -> bool:
        return self.threads % 32 == 0

    # ---- operands ---------------------------------------------------------------------------
    def defs(self, ins: Instruction) -> list[str]:
        """Registers an instruction writes."""
        d = self.decoded.get(ins.index)
        if d is None or not d.row.has_dest or not ins.operands:
            return []
        out = cfg.registers(ins.operands[0])
        if any(s.pair == "cc" for s in d.row.operands):
            out.append(CARRY)
        return out

    def uses(self, ins: Instruction) -> list[str]:
        """Registers an instruction reads."""
        d = self.decoded.get(ins.index)
        sources = ins.operands[1:] if d is not None and d.row.has_dest else ins.operands
        out = [r for o in sources for r in cfg.registers(o)]
        if ins.guard is not None:
            out.append(ins.guard)
        if d is not None and any(s.name == "cc" for s in d.row.operands):
            out.append(CARRY)
        return out

    def form_of(self, operand: Operand) -> Form | None:
        """The form of a source; None while nothing has been written to it yet."""
        match operand:
            case Reg(name):
                return self.forms.get(name)
            case Imm(value):
                return constant(value)
            case Special(name):
                return special_form(name, self.shape)
            case Sym(name, offset) if self.symbols.get(name, ("",))[0] in ("shared", "local"):
                return constant(self.symbols[name][1] + offset)
            case Not(of):
                return self.form_of(of)
            case Mem(base, _):
                return self.form_of(base)
            case Vec(items):
                return self._join([self.form_of(x) for x in items])
            case Pair(a, b):
                return self._join([self.form_of(a), self.form_of(b)])
        return UNKNOWN

    def branch_table(self, ins: Instruction) -> list[int]:
        """The blocks a `brx.idx` may go to, by index."""
        symbol = ins.operands[1]
        assert isinstance(symbol, Sym)
        return [self.graph.labels[x] for x in self.function.branch_targets[symbol.name]]

    def _join(self, forms: list[Form | None]) -> Form | None:
        known = [f for f in forms if f is not None]
        if len(known) < len(forms):
            return None
        return UNKNOWN if all(f.kind == UNIFORM for f in known) else vector()

    # ---- the form of a result ---------------------------------------------------------------
    def result(self, ins: Instruction) -> Form | None:
        """The form an instruction gives its destination; None while an operand is unknown."""
        d = self.decoded[ins.index]
        base = ins.parts[0]
        sources = [self.form_of(o) for o in ins.operands[1:]]
        if CARRY in self.uses(ins):
            sources.append(self.forms.get(CARRY))
        known = [f for f in sources if f is not None]
        if len(known) < len(sources):
            return None
        if d.row.warp:
            if base == "cvta" and "local" in ins.parts:
                return self._local_address(ins, known[0])
            rule = WARP_FORMS.get(base)
            return rule(ins, known) if rule else vector()
        uniform = all(f.kind == UNIFORM for f in known)
        kind = ins.parts[-1]
        if kind[0] not in "usb" or kind.startswith("bf"):
            return UNKNOWN if uniform else vector()
        if base == "mov" and not isinstance(ins.operands[0], Reg):
            return UNKNOWN if uniform else vector()
        return self._integer(ins, d, known, uniform)

    def _local_address(self, ins: Instruction, a: Form) -> Form:
        """Each lane has its own copy of local memory, `local_bytes` apart."""
        if not a.is_scalar:
            return vector()
        sign = -1 if "to" in ins.parts else 1
        off = tuple(x + sign * i * self.local_bytes for i, x in enumerate(a.off))
        return Form(UNIFORM if off == ZERO else AFFINE, off)

    def _integer(self, ins: Instruction, d: isa.Decoded, fs: list[Form], uniform: bool) -> Form:
        base, bits = ins.parts[0], 8 * _size(ins.parts[-1])
        signed = ins.parts[-1][0] == "s"
        if base == "cvt" and len(fs) == 1:
            return _convert(ins, fs[0])
        if base in ("mul", "mad") and "wide" in ins.parts and bits == 32:
            return _wide(fs, signed)
        name = f"{base}.lo" if base in ("mul", "mad") else base
        plain = len(ins.parts) == 2 or (base in ("mul", "mad") and ins.parts[1:-1] == ("lo",))
        if name in lattice.TABLE and plain:
            return lattice.TABLE[name](fs, bits, signed)
        return UNKNOWN if uniform else vector()


def _size(kind: str) -> int:
    return int("".join(c for c in kind if c.isdigit()) or 8) // 8


def _convert(ins: Instruction, a: Form) -> Form:
    dst, src = ins.parts[-2], ins.parts[-1]
    if dst[0] in "us" and len(ins.parts) == 3:
        if _size(dst) == _size(src):
            return a
        if (_size(dst), _size(src)) == (8, 4):
            return lattice.widen(a, 1, src[0] == "s")
        if (_size(dst), _size(src)) == (4, 8) and a.is_scalar:
            small = a.top if a.top is not None and a.top < 1 << 31 else None
            return Form(a.kind, a.off, min(a.align, 31), None, small)
    top = (
        a.top if a.top is not None and a.top < 1 << (8 * min(_size(dst), _size(src)) - 1) else None
    )
    return Form(UNIFORM, top=top) if a.kind == UNIFORM else vector(top)


def _wide(fs: list[Form], signed: bool) -> Form:
    a, b = fs[0], fs[1]
    if a.const is not None:
        a, b = b, a
    if b.const is not None and (0 <= b.const < 1 << 31 or (signed and b.const < 0)):
        product = lattice.widen(a, b.const, signed)
    elif a.kind == b.kind == UNIFORM:
        top = a.top * b.top if a.top is not None and b.top is not None else None
        product = Form(UNIFORM, top=top)
    else:
        product = vector()
    return product if len(fs) == 2 else lattice.TABLE["add"]([product, fs[2]], 64, signed)


def _address_only(ins: Instruction, fs: list[Form]) -> Form:
    """A load's result is uniform when its address is (and nothing volatile is between)."""
    return UNKNOWN if fs and fs[0].kind == UNIFORM else vector()


def _generic(ins: Instruction, fs: list[Form]) -> Form:
    """A window's start is added to shared and parameter addresses: their values are not known."""
    a = fs[0]
    windowed = any(p.startswith(("shared", "param")) for p in ins.parts)
    return Form(a.kind, a.off, scale=a.scale, signed=a.signed) if windowed else a


def _uniform(ins: Instruction, fs: list[Form]) -> Form:
    return UNKNOWN


def _load(ins: Instruction, fs: list[Form]) -> Form:
    if "local" in ins.parts:
        return vector()
    return _address_only(ins, fs)


def _of_group(ins: Instruction, fs: list[Form]) -> Form:
    """One answer for all lanes, if they all name the same group."""
    grouped = "sync" in ins.parts
    return UNKNOWN if not grouped or fs[-1].kind == UNIFORM else vector()


def _shuffled(ins: Instruction, fs: list[Form]) -> Form:
    """A broadcast from one lane, or a shuffle of what is the same in all of them."""
    value, lane, clamp = fs[:3]
    broadcast = "idx" in ins.parts and lane.kind == UNIFORM and clamp.const == 0x1F
    same = value.kind == UNIFORM and isinstance(ins.operands[0], Reg)
    return UNKNOWN if broadcast or same else vector()


def _waited(ins: Instruction, fs: list[Form]) -> Form:
    """Lanes that test one barrier for one phase at once see the same."""
    tests = ins.parts[1] in ("test_wait", "try_wait")
    return UNKNOWN if tests and all(f.kind == UNIFORM for f in fs) else vector()


WARP_FORMS = {
    "ld": _load,
    "ldu": _load,
    "cvta": _generic,
    "vote": _of_group,
    "shfl": _shuffled,
    "mbarrier": _waited,
    "activemask": _uniform,
    "redux": _of_group,
    "isspacep": _address_only,
    "mov": lambda ins, fs: fs[0] if isinstance(ins.operands[0], Reg) else vector(),
    "createpolicy": _uniform,
}


# ---- building --------------------------------------------------------------------------------
def prepare(module: Module, function: Function, shape: Shape) -> Program:
    """Link, decode, build the graph, and run the analyses to their fixed point."""
    validate.check(module, function)
    function = normalise(link(module, function), is_block_barrier)
    program = Program(module, function, shape)
    _place_variables(program)
    _decode(program)
    _analyse(program, lambda ins: False)
    blocks = program.graph.blocks
    if any(is_warp_sync(i) for x in program.scattered for i in blocks[x].code):
        _analyse(program, is_warp_sync)  # lanes must be able to wait there for each other
    _find_raw(program)
    return program


def _place_variables(program: Program) -> None:
    """Offsets of every variable inside its space, and of the dynamic shared memory.

    Variables of the module's own memory have theirs in the table of addresses that `image` makes.
    """
    module, function = program.module, program.function
    placed = [v.name for v in module.variables.values() if v.space in ("global", "const")]
    for i, name in enumerate(placed):
        program.symbols[name] = (module.variables[name].space, 8 * i)
    ends = {"shared": 0, "local": 0}
    dynamic = []
    for name, v in [*module.variables.items(), *function.variables.items()]:
        if v.space not in ends:
            continue
        if v.unsized and v.space == "shared":
            dynamic.append(name)
            continue
        start = -(-ends[v.space] // v.align) * v.align
        program.symbols[name] = (v.space, start)
        ends[v.space] = start + v.size
    program.shared_bytes = -(-ends["shared"] // 16) * 16
    program.local_bytes = -(-ends["local"] // 16) * 16
    for name in dynamic:
        program.symbols[name] = ("shared", program.shared_bytes)
    for p in function.params:
        program.symbols[p.name] = ("param", p.offset)


def _splits(ins: Instruction) -> bool:
    return is_block_barrier(ins)


def _decode(program: Program) -> None:
    cache: dict[str, isa.Decoded | None] = {}
    index = 0
    for ins in program.function.body:
        if isinstance(ins, Label):
            continue
        ins.index = index
        index += 1
        if ins.opcode not in cache:
            cache[ins.opcode] = isa.lookup(ins.parts)
        found = cache[ins.opcode]
        if found is None:
            raise validate.unsupported(ins)
        program.decoded[ins.index] = found


def _users(program: Program) -> dict[str, list[tuple[int, Instruction]]]:
    out: dict[str, list[tuple[int, Instruction]]] = {}
    for b in program.graph.blocks:
        for ins in b.code:
            for r in program.uses(ins):
                out.setdefault(r, []).append((b.index, ins))
    return out


def _analyse(program: Program, starts: Callable[[Instruction], bool]) -> None:
    function = program.function
    program.graph = graph = cfg.build(
        function.body, function.branch_targets, _splits, program.defs, program.uses, starts
    )
    program.forms.clear()
    program.divergent.clear()
    program.scattered.clear()
    n = len(graph.blocks)
    program.partial = [False] * n
    program.waiting = [set() for _ in range(n)]
    program.blend = [set() for _ in range(n)]
    # read before anything is written to them: the same in all lanes, so that what follows is known
    program.forms |= dict.fromkeys(graph.live_in[0], UNKNOWN)
    users = _users(program)
    work = [(b.index, ins) for b in graph.blocks for ins in b.code][::-1]
    queued = {ins.index for _, ins in work}
    while True:
        _propagate(program, work, queued, users)
        again = _diverge(program)
        if not again:
            break
        work = again
        queued = {ins.index for _, ins in work}
    for name in program.function.registers:
        program.forms.setdefault(name, UNKNOWN)
    program.forms.setdefault(CARRY, UNKNOWN)


def _propagate(
    program: Program,
    work: list[tuple[int, Instruction]],
    queued: set[int],
    users: Mapping[str, list[tuple[int, Instruction]]],
) -> None:
    forms = program.forms
    while work:
        block, ins = work.pop()
        queued.discard(ins.index)
        written = program.defs(ins)
        if not written:
            continue
        form = program.result(ins)
        if form is None:
            continue
        if ins.guard is not None:
            guard = forms.get(ins.guard)
            if guard is not None and guard.kind != UNIFORM:
                form = vector(form.top)
        for r in written:
            new = vector(form.top) if r in program.blend[block] else form
            old = forms.get(r)
            joined = meet(old, new)
            if old is not None and joined != old and old.top is not None and joined.top != old.top:
                joined = _without_top(joined)  # a growing bound would never end
            if joined != old:
                forms[r] = joined
                for user in users.get(r, ()):
                    if user[1].index not in queued:
                        queued.add(user[1].index)
                        work.append(user)


def _without_top(form: Form) -> Form:
    return Form(form.kind, form.off, form.align, form.const, None, form.scale, form.signed)


def _diverge(program: Program) -> list[tuple[int, Instruction]]:
    """Finds branches that split a warp; returns what must be looked at again."""
    graph = program.graph
    found = False
    for b in graph.blocks:
        if b.index in program.divergent or b.last is None:
            continue
        forms = [program.forms.get(b.last.guard)] if b.last.guard else []
        if b.last.parts[0] == "brx":
            forms.append(program.form_of(b.last.operands[0]))
        if any(f is not None and f.kind != UNIFORM for f in forms) and len(b.successors) > 1:
            program.divergent.add(b.index)
            found = True
            _note_split(program, b.index)
    if not found:
        return []
    again = []
    for b in graph.blocks:
        if not program.partial[b.index]:
            continue
        live: set[str] = set()
        for x in program.waiting[b.index]:
            live |= graph.live_in[x]
        for ins in b.code:
            hit = [r for r in program.defs(ins) if r in live]
            if hit:
                program.blend[b.index].update(hit)
                again.append((b.index, ins))
    return again


def _note_split(program: Program, source: int) -> None:
    """Lanes part at `source`: while some run on one side, others wait on another or at the end."""
    graph = program.graph
    stop = graph.post_dominator[source]
    sides = [_reach(graph, s, stop) for s in graph.blocks[source].successors]
    while stop != EXIT and any(x > stop for side in sides for x in side):
        # the lowest block runs first: lanes at `stop` do not wait for lanes in later blocks
        stop = graph.post_dominator[stop]
        sides = [_reach(graph, s, stop) for s in graph.blocks[source].successors]
    end = {stop} if stop != EXIT else set()
    if any(_may_be_overtaken(graph, side) for side in sides):
        # whoever waits at the end may have to run on first: the lanes need not meet again
        end, sides = set(), [_reach(graph, s, EXIT) for s in graph.blocks[source].successors]
        program.scattered.update(*sides)
    for i, side in enumerate(sides):
        others = end.union(*(x for j, x in enumerate(sides) if j != i))
        for x in side:
            program.partial[x] = True
            program.waiting[x] |= others


def _may_be_overtaken(graph: Graph, side: set[int]) -> bool:
    """Does anything in there wait for other lanes: a block barrier, or a loop that may spin?"""
    blocks = [graph.blocks[x] for x in side]
    return bool(side & spin_heads(graph)) or any(
        is_block_barrier(i) for b in blocks for i in b.code
    )


def _reach(graph: Graph, start: int, stop: int) -> set[int]:
    """Blocks reachable from `start` without passing `stop`."""
    seen: set[int] = set()
    work = [start]
    while work:
        x = work.pop()
        if x not in seen and x not in (stop, EXIT):
            seen.add(x)
            work.extend(graph.blocks[x].successors)
    return seen


def _find_raw(program: Program) -> None:
    """Registers that hold only results of f32 arithmetic: their NaNs are made canonical late.

    A register that may also hold bits from elsewhere (a load, an integer) must keep them as they
    are, so everything written to it is made canonical first.
    """
    kinds = program.function.registers
    defs: dict[str, list[Instruction]] = {}
    for b in program.graph.blocks:
        for ins in b.code:
            for r in program.defs(ins):
                defs.setdefault(r, []).append(ins)
    raw = {r for r, k in kinds.items() if k in ("f32", "b32") and r in defs}
    arithmetic = {r for r in raw if any(program.decoded[i.index].row.raw_nan for i in defs[r])}
    changed = True
    while changed:
        changed = False
        for r in sorted(raw):
            if not all(_raw_source(program, i, raw) for i in defs[r]):
                raw.discard(r)
                changed = True
    moved = True
    while moved:  # a copy of an arithmetic result is one too; a register of constants is not
        moved = False
        for r in sorted(raw - arithmetic):
            for i in defs[r]:
                source = i.operands[1] if i.parts[0] in ("mov", "selp", "shfl") else None
                if isinstance(source, Reg) and source.name in arithmetic:
                    arithmetic.add(r)
                    moved = True
    program.raw_nan = raw & arithmetic


def _raw_source(program: Program, ins: Instruction, raw: set[str]) -> bool:
    if ins.parts[0] == "mov" and isinstance(ins.operands[0], Reg):
        return _raw_operand(ins.operands[1], raw)
    if ins.parts[0] == "shfl":
        return _raw_operand(ins.operands[1], raw)
    if ins.parts[0] in ("selp", "slct"):  # they hand bits on
        return all(_raw_operand(o, raw) for o in ins.operands[1:3])
    return program.decoded[ins.index].row.raw_nan and ins.parts[-1] == "f32"


def _raw_operand(operand: Operand, raw: set[str]) -> bool:
    match operand:
        case Reg(name):
            return name in raw
        case FloatImm(bits, width):
            return width == 32 and (bits & 0x7FFFFFFF) <= 0x7F800000
        case Imm(value):
            return (value & 0x7FFFFFFF) <= 0x7F800000
        case Sym():
            return False
    return False
