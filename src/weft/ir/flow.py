"""Control flow: branches, loops and switches as blocks of Python; the builder's base.

A combinator makes its labels itself and joins the values of its arms, so that code reads like
the structured program that it is. An arm that returns or jumps away does not take part in the join.
Labels by hand (`label`, `place`, `jump`, `branch`) are for graphs that have no such structure: the
blocks of a PTX function, and what resumes a suspended warp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from weft.ir.module import IrFunction, IrModule
from weft.ir.value import Val

T = TypeVar("T", None, Val, list[Val])
"""The result of an arm: nothing, a value, or several."""

_RARE, _LIKELY = ", !prof !0", ", !prof !2"
"""The branch weights of `IrModule`."""


class Flow(ABC):
    """Appends instructions to `fn`; `module` collects what they need."""

    def __init__(self, module: IrModule, fn: IrFunction) -> None:
        self.module, self.fn = module, fn
        self.block = "entry"
        self.ended = False
        """True if the current block has its last instruction: a label must come next."""
        self.known: dict[str, str] = {}
        """Results of the current block that depend only on the instruction's text."""

    @abstractmethod
    def named(self, ty: str, n: int, ref: str) -> Val:
        """A value by its name in the text."""

    # ---- text -------------------------------------------------------------------------------
    def name(self) -> str:
        self.fn.count += 1
        return f"%t{self.fn.count}"

    def emit(self, text: str) -> None:
        assert not self.ended, f"unreachable: {text}"
        self.fn.lines.append("  " + text)

    def define(self, text: str) -> str:
        assert not self.ended, f"unreachable: {text}"
        ref = self.name()
        self.fn.lines.append(f"  {ref} = {text}")
        return ref

    def val(self, ty: str, n: int, text: str) -> Val:
        """The result of the instruction `text`."""
        return self.named(ty, n, self.define(text))

    # ---- labels -----------------------------------------------------------------------------
    def label(self, hint: str = "l") -> str:
        self.fn.count += 1
        return f"{hint}{self.fn.count}"

    def place(self, label: str) -> None:
        self.fn.lines.append(label + ":")
        self.block = label
        self.begin()

    def begin(self) -> None:
        """Begin another block, which has no known results."""
        self.ended, self.known = False, {}

    def jump(self, label: str) -> None:
        self._end(f"br label %{label}")

    def branch(
        self, cond: Val, yes: str, no: str, *, rare: bool = False, likely: bool = False
    ) -> None:
        tail = _RARE if rare else _LIKELY if likely else ""
        self._end(f"br {cond.typed}, label %{yes}, label %{no}{tail}")

    def jump_if(self, cond: Val, label: str, *, rare: bool = False) -> None:
        """Jump to `label` if the scalar `cond` holds."""
        on = self.label("on")
        self.branch(cond, label, on, rare=rare)
        self.place(on)

    def jump_unless(self, cond: Val, label: str) -> None:
        """Jump to `label` in the unlikely case that the scalar `cond` does not hold."""
        on = self.label("on")
        self.branch(cond, on, label, likely=True)
        self.place(on)

    def jump_table(self, value: Val, cases: Mapping[int, str], default: str) -> None:
        """Jump to the label of a value."""
        table = " ".join(f"{value.element} {k}, label %{label}" for k, label in cases.items())
        self._end(f"switch {value.typed}, label %{default} [ {table} ]")

    def ret(self, value: Val | None = None) -> None:
        """Return from the function."""
        self._end("ret void" if value is None else f"ret {value.typed}")

    def _end(self, text: str) -> None:
        self.emit(text)
        self.ended = True

    def phi(self, ty: str, n: int, incoming: Sequence[tuple[Val, str]]) -> Val:
        shape = f"<{n} x {ty}>" if n else ty
        pairs = ", ".join(f"[ {v.ref}, %{label} ]" for v, label in incoming)
        out = self.val(ty, n, f"phi {shape} {pairs}")
        out.raw_nan = any(v.raw_nan for v, _ in incoming)
        return out

    # ---- branches ---------------------------------------------------------------------------
    @contextmanager
    def when(self, cond: Val, *, rare: bool = False) -> Iterator[None]:
        """Run the body if the scalar `cond` holds."""
        yes, end = self.label("then"), self.label("end")
        self.branch(cond, yes, end, rare=rare)
        self.place(yes)
        yield
        if not self.ended:
            self.jump(end)
        self.place(end)

    def either(
        self,
        cond: Val,
        then: Callable[[], T],
        otherwise: Callable[[], T],
        *,
        rare: bool = False,
        likely: bool = False,
    ) -> T:
        """The value of one of two arms, by the scalar `cond`."""
        yes, no = self.label("then"), self.label("else")
        self.branch(cond, yes, no, rare=rare, likely=likely)
        return self._arms([(yes, then), (no, otherwise)])

    def switch(
        self, value: Val, arms: Mapping[int, Callable[[], T]], default: Callable[[], T]
    ) -> T:
        """The value of the arm of a value, or of the default."""
        labelled = [(self.label("case"), arm) for arm in arms.values()]
        other = self.label("default")
        cases = {k: label for k, (label, _) in zip(arms, labelled, strict=True)}
        self.jump_table(value, cases, other)
        labelled.append((other, default))
        return self._arms(labelled)

    def _arms(self, arms: Sequence[tuple[str, Callable[[], T]]]) -> T:
        """Code for each arm, and the join of those that continue."""
        end = self.label("end")
        results: list[tuple[T, str]] = []
        for label, arm in arms:
            self.place(label)
            result = arm()
            if not self.ended:
                # An arm may have placed labels: the phi needs the block that it ends in.
                results.append((result, self.block))
                self.jump(end)
        if not results:
            return result
        self.place(end)
        return self._joined(results)

    def _joined(self, results: list[tuple[T, str]]) -> T:
        first = results[0][0]
        if first is None or len(results) == 1:
            return first
        if isinstance(first, Val):
            values = [(v, label) for v, label in results if isinstance(v, Val)]
            return self.phi(first.element, first.lanes, values)
        lists = [(vs, label) for vs, label in results if isinstance(vs, list)]
        return [
            self.phi(v.element, v.lanes, [(vs[i], label) for vs, label in lists])
            for i, v in enumerate(first)
        ]

    @contextmanager
    def breakable(self) -> Iterator[str]:
        """Run the body once; a jump to the label leaves it."""
        end = self.label("end")
        yield end
        if not self.ended:
            self.jump(end)
        self.place(end)

    # ---- loops ------------------------------------------------------------------------------
    @contextmanager
    def loop(self, count: Val | int) -> Iterator[Val]:
        """Run the body with i = 0 .. count-1 (i32; the count may be 0)."""
        limit = self.named("i32", 0, str(count)) if isinstance(count, int) else count
        pre, head, body, end = self.block, self.label("head"), self.label("body"), self.label("end")
        i, following = self.name(), self.name()
        self.jump(head)
        self.place(head)
        # The phi names the value and the block of the back edge, which are known after the body:
        # its line is reserved here.
        slot = len(self.fn.lines)
        self.fn.lines.append("")
        index = self.named("i32", 0, i)
        self.branch(index.ult(limit), body, end)
        self.place(body)
        yield index
        # i is below the count here, so the addition cannot wrap.
        self.emit(f"{following} = add nuw i32 {i}, 1")
        self.fn.lines[slot] = f"  {i} = phi i32 [ 0, %{pre} ], [ {following}, %{self.block} ]"
        self.jump(head)
        self.place(end)

    def while_(self, start: Val, goes_on: Callable[[Val], Val], body: Callable[[Val], Val]) -> Val:
        """`x = start; while goes_on(x): x = body(x)`; the last x."""
        pre, head, work, end = self.block, self.label("head"), self.label("body"), self.label("end")
        self.jump(head)
        self.place(head)
        x, note = self._carried(start, pre)
        self.branch(goes_on(x), work, end)
        self.place(work)
        note(body(x))
        self.jump(head)
        self.place(end)
        return x

    def until(self, start: Val, body: Callable[[Val], tuple[Val, Val]]) -> Val:
        """`x = start; while True: following, done = body(x)`, until `done`; the last x."""
        pre, head, end = self.block, self.label("again"), self.label("end")
        self.jump(head)
        self.place(head)
        x, note = self._carried(start, pre)
        following, done = body(x)
        note(following)
        self.branch(done, end, head)
        self.place(end)
        return x

    def _carried(self, start: Val, pre: str) -> tuple[Val, Callable[[Val], None]]:
        """A value that a loop carries, and a function that sets it for the next iteration."""
        # Reserved for the phi, which is complete only when the body is.
        at = len(self.fn.lines)
        self.emit("")
        x = self.named(start.element, start.lanes, self.name())

        def note(following: Val) -> None:
            pairs = f"[ {start.ref}, %{pre} ], [ {following.ref}, %{self.block} ]"
            self.fn.lines[at] = f"  {x.ref} = phi {x.type} {pairs}"

        return x, note

    @contextmanager
    def forever(self) -> Iterator[str]:
        """Run the body repeatedly until it returns; a jump to the label starts it again."""
        head = self.label("again")
        self.jump(head)
        self.place(head)
        yield head
        if not self.ended:
            self.jump(head)
