"""Instructions in their order: text, labels, branches, loops; the builder's base."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from weft.ir.module import Function, IrModule
from weft.ir.value import Val


class Flow(ABC):
    """Appends instructions to `fn`; `module` collects what they need."""

    def __init__(self, module: IrModule, fn: Function) -> None:
        self.module, self.fn = module, fn
        self.block = "entry"

    @abstractmethod
    def named(self, ty: str, n: int, ref: str) -> Val:
        """A value by what the text calls it."""

    # ---- text -------------------------------------------------------------------------------
    def name(self) -> str:
        self.fn.count += 1
        return f"%t{self.fn.count}"

    def emit(self, text: str) -> None:
        self.fn.lines.append("  " + text)

    def define(self, text: str) -> str:
        ref = self.name()
        self.fn.lines.append(f"  {ref} = {text}")
        return ref

    def val(self, ty: str, n: int, text: str) -> Val:
        """The result of the instruction `text`."""
        return self.named(ty, n, self.define(text))

    # ---- control flow -----------------------------------------------------------------------
    def label(self, hint: str = "l") -> str:
        self.fn.count += 1
        return f"{hint}{self.fn.count}"

    def place(self, label: str) -> None:
        self.fn.lines.append(label + ":")
        self.block = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch(self, cond: Val, yes: str, no: str, *, rare: bool = False) -> None:
        tail = ", !prof !0" if rare else ""
        self.emit(f"br {cond.tref}, label %{yes}, label %{no}{tail}")

    def phi(self, ty: str, n: int, incoming: Sequence[tuple[Val, str]]) -> Val:
        shape = f"<{n} x {ty}>" if n else ty
        pairs = ", ".join(f"[ {v.ref}, %{label} ]" for v, label in incoming)
        out = self.val(ty, n, f"phi {shape} {pairs}")
        out.raw_nan = any(v.raw_nan for v, _ in incoming)
        return out

    @contextmanager
    def when(self, cond: Val, *, rare: bool = False) -> Iterator[None]:
        """The body runs if the scalar `cond` holds."""
        yes, end = self.label("then"), self.label("end")
        self.branch(cond, yes, end, rare=rare)
        self.place(yes)
        yield
        self.jump(end)
        self.place(end)

    def choose(self, cond: Val, yes: Callable[[], Val], no: Callable[[], Val]) -> Val:
        """Two branches, one value."""
        a, c, end = self.label("then"), self.label("else"), self.label("end")
        self.branch(cond, a, c)
        self.place(a)
        x = yes()
        from_a = self.block
        self.jump(end)
        self.place(c)
        y = no()
        from_c = self.block
        self.jump(end)
        self.place(end)
        return self.phi(x.ty, x.n, [(x, from_a), (y, from_c)])

    @contextmanager
    def loop(self, count: Val | int) -> Iterator[Val]:
        """The body runs with i = 0 .. count-1 (i32; at least once is not assumed)."""
        limit = self.named("i32", 0, str(count)) if isinstance(count, int) else count
        pre, head, body, end = self.block, self.label("head"), self.label("body"), self.label("end")
        i, following = self.name(), self.name()
        self.jump(head)
        self.place(head)
        slot = len(self.fn.lines)
        self.fn.lines.append("")
        index = self.named("i32", 0, i)
        self.branch(index.ult(limit), body, end)
        self.place(body)
        yield index
        self.emit(f"{following} = add nuw i32 {i}, 1")
        self.fn.lines[slot] = f"  {i} = phi i32 [ 0, %{pre} ], [ {following}, %{self.block} ]"
        self.jump(head)
        self.place(end)
