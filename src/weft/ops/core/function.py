"""Implement calls of an op: a fast path for eager calls, torch's dispatcher for all others.

A call without modes or tensor subclasses is made by C++ code (`native`) if that has learned a
plan for its arguments. Otherwise it reuses the plan of the previous call if dtype, device, shape,
strides and alignment are equal, else it looks up a plan by them, and the C++ code learns it.
torch's dispatcher is not involved. A call with gradients is recorded by `eager` until the C++ code
has learned it. Under autocast, a call converts its tensors and is then made in the same ways. Every
other call (torch.compile, vmap, fake tensors, subclasses, a profiler that wants to see the op) goes
through the op that is registered with torch, whose implementation runs the same plan.

The functions of an op are generated as source text (`arguments.CALL`) and compiled with `exec`, as
`dataclasses` and `namedtuple` do. The schema gives their parameters and defaults, so that Python
binds the arguments of a call. A closure would take `*args, **options` and bind them itself: four
times as long or more until the C++ code is reached (1.9 to 3.1 instead of 0.4 to 0.7 µs, measured
on a busy CPU with torch 2.11), and its key of a plan would be a loop over the arguments, 1.2 times
as long. The names that the functions use, with the plan of the previous call, are in
`Function.namespace`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from weft.device.gpu.guard import Guard, guard, never
from weft.ops.core import arguments, checks, eager
from weft.ops.core.bind import autocast, batching, transforms
from weft.ops.core.bind.custom_op import custom_op
from weft.ops.core.bind.verify import verify
from weft.ops.core.choose import Candidate, Choice, Request, choose
from weft.ops.core.eager import PLAIN
from weft.ops.core.lazy_views import may_be_lazy, resolving
from weft.ops.core.native import trace
from weft.ops.core.native.calls import Calls
from weft.ops.core.native.recorder import KEYS, Recorders
from weft.ops.core.plan import Plan, layout
from weft.ops.core.runner import Run, runner
from weft.ops.core.target import target

REMEMBERED = 8192
"""The most plans that an op keeps; when exceeded, all are dropped."""


class Entry(NamedTuple):
    """A plan that is ready to run, and the calls that it serves.

    guard    returns whether tensors have the layouts of the plan
    options  the arguments that are not tensors
    record   the functions that run it and record its gradient
    """

    guard: Guard
    run: Run
    options: tuple[Any, ...]
    plan: Plan
    device: torch.device
    record: Recorders


_NONE = Entry(never, lambda *tensors: None, (), Plan((), ()), torch.device("cpu"), Recorders())


@dataclass(frozen=True)
class Definition:
    """Everything about an op except its kernels.

    schema      in torch's notation, e.g. "(Tensor x, int dim=-1) -> Tensor"; an op that writes to
                an argument, "Tensor(a!) x", has no gradient: torch allows it for others only
    check       raises ArgumentError for invalid arguments; gets all arguments
    fake        the outputs for fake inputs: torch.empty of their shapes and dtypes
    candidates  returns the candidates for a request
    setup       saves values for `backward` in torch's context: (ctx, inputs, output)
    backward    (ctx, *gradients) -> one gradient per argument; None: not differentiable
    vmap        "leading", "loop" or a rule of torch's kind
    autocast    how torch.autocast converts the inputs; see `autocast.Policy`
    redirect    makes, of the call, a function that gets all arguments which no plan was found for
                and returns the result; NotImplemented: torch's dispatcher is called
    planless    an expression of the arguments: no plan is looked up for calls where it is true
    public      True for an op that users call, False for one that calls are redirected to
    varying     the int arguments that no plan depends on; kernels get them as `plan.Word`
    traceable   False if `backward` does more than to call ops: it looks at the state of autograd,
                or launches kernels
    """

    name: str
    schema: str
    doc: str
    fake: Callable[..., Any]
    candidates: Callable[[Request], Sequence[Candidate]]
    check: Callable[..., None] = lambda *args: None
    setup: Callable[..., None] | None = None
    backward: Callable[..., Any] | None = None
    vmap: str | Callable[..., Any] = "loop"
    autocast: autocast.Policy = torch.float32
    redirect: Callable[[Callable[..., Any]], Callable[..., Any] | eager.Redirect] | None = None
    planless: str = "False"
    public: bool = True
    varying: tuple[str, ...] = ()
    traceable: bool = True


@dataclass
class Function:
    """An op: users call `call`, torch calls `compute`, and both use `plans`.

    namespace  the global names of the generated functions; `last` is the plan of the previous call
    """

    definition: Definition
    call: Callable[..., Any] = field(init=False)
    compute: Callable[..., Any] = field(init=False)
    plans: dict[Any, Entry] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        schema = torch._C.parse_schema(f"weft::{self.definition.name}{self.definition.schema}")
        self.arguments = list(schema.arguments)
        self.tensors = [a.name for a in self.arguments if "Tensor" in str(a.type)]
        self.op = self._register()
        self.native = Calls(
            [a.name in self.tensors for a in self.arguments],
            autocast.word(self.definition.autocast),
        )
        self.call, self.compute = self._generated()
        self.namespace["dispatch"], self.namespace["recorded"] = self._slow_paths()
        trace.OPS[self.definition.name] = self

    def request(self, *args: Any) -> Request:
        """The request of a call; raises for invalid arguments. The last ones may be left out."""
        args = (*args, *(a.default_value for a in self.arguments[len(args) :]))
        pairs = zip(self.arguments, args, strict=True)
        named = {a.name: arguments.as_torch_passes(a, value) for a, value in pairs}
        inputs = [named.pop(n) for n in self.tensors]
        for name in self.definition.varying:
            del named[name]
        tensors = dict(zip(self.tensors, inputs, strict=True))
        device = checks.common_device(self.definition.name, tensors)
        self.definition.check(*args)
        layouts = tuple(None if t is None else layout(t) for t in inputs)
        return Request(self.definition.name, layouts, named, target(device))

    def bound(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in order, with defaults."""
        call = inspect.signature(self.call).bind(*args, **options)
        call.apply_defaults()
        return list(call.arguments.values())

    def choice(self, request: Request) -> Choice:
        """The candidates for a request and the chosen one."""
        return choose(request, self.definition.candidates(request))

    def entry(self, *args: Any) -> Entry:
        """The plan of a call, which is made if it is new."""
        found: Entry = self.namespace["find"](*args)
        return found

    def entry_of(self, request: Request, device: torch.device) -> Entry:
        """The plan of a request, for a caller that keeps it."""
        plan = self.choice(request).used.build()
        return Entry(never, self._run_of(plan, device), (), plan, device, Recorders(KEYS))

    def _run_of(self, plan: Plan, device: torch.device) -> Run:
        return runner(plan, len(self.tensors), device, len(self.definition.varying))

    def forget(self) -> None:
        """Drop all plans: the next call of each kind chooses its kernel again."""
        self.plans.clear()
        self.native.forget()
        self.namespace["last"] = _NONE

    # ---- the slow path: torch ------------------------------------------------------------------
    def _register(self) -> Any:
        d = self.definition
        written = {a.name for a in self.arguments if a.alias_info and a.alias_info.is_write}
        op = custom_op(
            f"weft::{d.name}",
            lambda *a, **k: self.compute(*a, **k),
            mutates_args=written,
            schema=d.schema,
        )
        op.register_fake(d.fake)
        if d.backward is not None:
            op.register_autograd(d.backward, setup_context=d.setup)
        op.register_vmap(batching.rule(f"weft::{d.name}", op, d.vmap))
        if d.autocast is not None:
            autocast.register(op, d.autocast)
        return op

    # ---- the fast path -------------------------------------------------------------------------
    def _generated(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Generate `call` and `compute`; the module's docstring has the reason."""
        self.namespace |= {
            "PLAIN": frozenset(PLAIN),
            "ad": forward_ad,
            "autocast": torch._C._is_any_autocast_enabled,
            # Other compilers than Dynamo have a mode of torch active.
            "compiling": torch.compiler.is_dynamo_compiling,
            "dispatch_modes": torch._C._len_torch_dispatch_stack,
            "function_modes": torch._C._len_torch_function_stack,
            "functorch": torch._C._functorch.peek_interpreter_stack,
            "grad": torch.is_grad_enabled,
            "last": _NONE,
            "make": self._make,
            "native": self.native,
            "plans": self.plans,
            "profiled": torch.autograd._profiler_enabled,
            "teach": self._teach,
            "traced": torch._C._get_tracing_state,
        }
        self._compile(arguments.CALL)
        call, compute = self.namespace[self.definition.name], self.namespace["compute"]
        call.__doc__, call.__module__ = self.definition.doc, "weft.ops"
        call.op, call.definition, call.name = self, self.op, f"weft::{self.definition.name}"
        call.verify = functools.partial(verify, call)
        return call, compute

    def _compile(self, template: str, **more: object) -> None:
        """Add the functions of a template to the namespace."""
        d = self.definition
        words = arguments.words(self.arguments, d.name, d.varying, d.planless)
        # The text has only argument names from the schema, which torch has validated.
        text = template.format(**words, **more)
        exec(compile(text, f"<weft.ops.{d.name}>", "exec"), self.namespace)

    def _slow_paths(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """(any call without a plan, a call of plain tensors that needs a gradient)."""
        op: Callable[..., Any] = self.op._opoverload
        made = self.definition.redirect and self.definition.redirect(op)
        every: Callable[..., Any] | None
        shorter: Callable[..., Any] | None
        if isinstance(made, eager.Redirect):
            every, shorter = made.every, self._borrowing(made)
        else:
            every = shorter = made
        record, in_transform = self.recording(), self._transformed()
        policy, is_tracked = self.definition.autocast, self.is_tracked

        def route(*args: Any) -> Any:
            if not is_tracked and eager.converts(args):
                given = autocast.converted(args, policy)
                with autocast.off():
                    return self.call(*given)
            result = NotImplemented if every is None else every(*args)
            if result is not NotImplemented:
                return result
            if in_transform is not None and transforms.are_active():
                return in_transform(*args)
            if record is not None and eager.wanted(args):
                return record(*args)
            return op(*args)

        def dispatch(*args: Any) -> Any:
            if torch.compiler.is_compiling():
                return route(*args)
            try:
                return route(*args)
            except (AttributeError, RuntimeError, TypeError) as error:
                pairs = zip(self.arguments, args, strict=True)
                wrong = checks.wrong_type(self.definition.name, list(pairs), error)
                if wrong is None:
                    raise
                raise wrong from None

        def recorded(*args: Any) -> Any:
            result = NotImplemented if shorter is None else shorter(*args)
            return (record or op)(*args) if result is NotImplemented else result

        return dispatch, record if record is not None and shorter is None else recorded

    def _borrowing(self, redirect: eager.Redirect) -> Callable[..., Any]:
        """The function that lets another op record a call; the C++ code learns from it."""
        every, saving, results, given = redirect
        record = saving.recording(results)
        assert record is not None

        def recorded(*args: Any) -> Any:
            theirs = given(*args)
            if theirs is None:
                return every(*args)
            result = record(*theirs)
            entry = saving.entry(*theirs)
            if entry.record.open:
                self.native.borrow(entry, results, args)
            return result

        return recorded

    def _transformed(self) -> Callable[..., Any] | None:
        """The function for calls under torch.func; None if torch must see what the op writes."""
        d = self.definition
        if self.is_tracked:
            return None
        rule = batching.rule(f"weft::{d.name}", self.call, d.vmap)  # outer transforms see it
        return transforms.transformed(
            f"weft::{d.name}", self.op._opoverload, d.setup, d.backward, rule
        )

    def recording(self, results: int = 0) -> Callable[..., Any] | None:
        """The function for eager calls with a gradient; None if torch must record it.

        results  the number of results it returns; see `eager.differentiable`
        """
        d = self.definition
        if d.backward is None or d.setup is None or self.is_tracked:
            return None
        in_python = eager.differentiable(
            d.name, lambda *args: self.compute(*args), d.setup, d.backward, results
        )

        def learn(entry: Entry, *args: Any) -> Any:
            """Record a call that its plan has no recipe for."""
            result = NotImplemented
            if entry.record.add(self, entry, results, args):
                result = entry.record[results](*self._inputs(args))
            return in_python(*args) if result is NotImplemented else result

        self.namespace[f"learn_{results}"] = learn
        self._compile(arguments.RECORD, results=results)
        record: Callable[..., Any] = self.namespace[f"record_{results}"]
        return record

    @property
    def is_tracked(self) -> bool:
        """True if torch tracks what the op writes, or looks into lists of tensors."""
        return any(a.alias_info or "List[Tensor" in str(a.type) for a in self.arguments)

    def _inputs(self, args: Sequence[Any]) -> list[Any]:
        """The tensors of a call, then its varying arguments."""
        named = {a.name: value for a, value in zip(self.arguments, args, strict=True)}
        return [named[name] for name in (*self.tensors, *self.definition.varying)]

    def _is_option(self, argument: Any) -> bool:
        """True if a plan depends on this argument, and it is no tensor."""
        return argument.name not in (*self.tensors, *self.definition.varying)

    def _make(self, key: Any, *args: Any) -> Entry:
        """Make a plan and store it under its key."""
        request = self.request(*args)
        names = [a.name for a in self.arguments]
        inputs = [a for a, n in zip(args, names, strict=True) if n in self.tensors]
        device = next(t.device for t in inputs if t is not None)
        plan = self.choice(request).used.build()
        made = self._run_of(plan, device)
        if any(t is not None and may_be_lazy(t) for t in inputs):
            given = (*self.tensors, *self.definition.varying)
            rest = {n: a for n, a in zip(names, args, strict=True) if n not in given}

            def again(*values: Any) -> Any:
                return self.compute(**rest, **dict(zip(given, values, strict=True)))

            made = resolving(made, len(inputs), again)
        on_gpu = device.type == "cuda"
        pairs = zip(self.arguments, args, strict=True)
        options = tuple(arguments.option(a, value) for a, value in pairs if self._is_option(a))
        # The guard saves a dictionary lookup; a simulated launch takes far longer than that.
        same = guard(inputs, PLAIN) if on_gpu else never
        record = Recorders(0 if self.is_tracked else KEYS)
        entry = Entry(same, made, options, plan, device, record)
        # Dropping all is cheaper than tracking the last use of each.
        if len(self.plans) >= REMEMBERED:
            self.plans.clear()
            self.native.forget()
        if key is not None:
            self.plans[key] = entry
        return entry

    def _teach(self, entry: Entry, *args: Any) -> None:
        """Give the C++ code the plan of a call that it has refused."""
        self.native.learn(entry, args, range(len(self.tensors)))
