"""A Python function as a function of CUDA C++."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from weft.frontends.cupy.jit.builtins import Code, Range, SharedMemory
from weft.frontends.cupy.jit.expressions import Expressions

HEADER = "#include <cupy/jit.cuh>\n"


class TranslatedProgram:
    """A kernel with the functions that it calls."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._functions: dict[Any, str] = {}
        self._texts: list[str] = []

    def kernel(self, function: Any, name: str, parameters: str, given: str) -> str:
        """Return the source of a kernel.

        parameters   its C++ parameters
        given        statements that define the function's arguments from them
        """
        body = _Body(function, self._mode, self.device).translate()
        text = f'extern "C" __global__ void {name}({parameters}) {{\n{given}{body}}}\n'
        return HEADER + "".join([*self._texts, text])

    def device(self, kernel: Any) -> str:
        """Return the name of a device function; it is translated when it is called first."""
        function = kernel.function
        if function not in self._functions:
            name = f"f{len(self._functions)}_{function.__name__}"
            self._functions[function] = ""
            body = _Body(function, self._mode, self.device)
            types = ", ".join(f"typename T{i}" for i in range(len(body.parameters)))
            given = ", ".join(f"T{i} v_{p}" for i, p in enumerate(body.parameters))
            head = f"template <{types}>\n" if types else "inline "
            self._texts.append(f"{head}__device__ auto {name}({given}) {{\n{body.translate()}}}\n")
            self._functions[function] = name
        if not self._functions[function]:
            raise ValueError(f"cupyx.jit: the device function {function.__name__} calls itself")
        return self._functions[function]


class _Body:
    """The statements of one function.

    Variables are declared first, in the order of their assignments, with the type of the first.
    """

    def __init__(self, function: Any, mode: str, device: Any) -> None:
        source = textwrap.dedent(inspect.getsource(function))
        tree: Any = ast.parse(source)
        self._tree = tree.body[0]
        file = inspect.getsourcefile(function) or "?"
        ast.increment_lineno(self._tree, function.__code__.co_firstlineno - 1)
        self.parameters: list[str] = [a.arg for a in self._tree.args.args]
        self._expressions = Expressions(_names(function), mode, device, file)
        self._expressions.variables.update(self.parameters)
        self._declared: list[str] = []
        self._counter = 0

    def translate(self) -> str:
        lines = self._block(self._tree.body)
        return "".join(f"    {line}\n" for line in (*self._declared, *lines))

    def _block(self, statements: Sequence[ast.stmt]) -> list[str]:
        lines: list[str] = []
        for statement in statements:
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                what = f"`{ast.unparse(statement).splitlines()[0]}`"
                raise self._expressions.fail(statement, what)
            lines += method(statement)
        return lines

    def _nested(self, head: str, statements: Sequence[ast.stmt]) -> list[str]:
        return [f"{head} {{", *(f"    {line}" for line in self._block(statements)), "}"]

    def _fresh(self) -> str:
        self._counter += 1
        return f"t{self._counter}"

    # ---- assignments ---------------------------------------------------------------------------
    def _Assign(self, node: ast.Assign) -> list[str]:
        value = self._shared(node) or self._expressions.value(node.value)
        if isinstance(value, _Declared):
            return []
        return [line for target in node.targets for line in self._assigned(target, value)]

    def _shared(self, node: ast.Assign) -> _Declared | None:
        """Declare an array in shared memory."""
        call, target = node.value, node.targets[0]
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Name):
            return None
        function = self._expressions.value(call.func)
        if not isinstance(function, SharedMemory):
            return None
        args = [self._expressions.value(a) for a in call.args]
        options = {str(k.arg): self._expressions.value(k.value) for k in call.keywords}
        self._declared.append(function.declaration(f"v_{target.id}", *args, **options))
        self._expressions.variables.add(target.id)
        return _Declared()

    def _assigned(self, target: ast.expr, value: Any) -> list[str]:
        if isinstance(target, ast.Tuple):
            return self._unpacked(target, value)
        if isinstance(value, tuple) and isinstance(target, ast.Name):
            names = [ast.Name(f"{target.id}_{i}") for i in range(len(value))]
            lines = [
                line for n, v in zip(names, value, strict=True) for line in self._assigned(n, v)
            ]
            self._expressions.tuples[target.id] = tuple(Code(f"v_{n.id}") for n in names)
            return lines
        text = self._expressions.code(value)
        if isinstance(target, ast.Name):
            self._declare(target.id, text)
            return [f"v_{target.id} = {text};"]
        return [f"{self._expressions.text(target)} = {text};"]

    def _declare(self, name: str, text: str) -> None:
        variables = self._expressions.variables
        if name not in variables:
            self._declared.append(f"weft_jit::Decay<decltype({text})>::type v_{name};")
            variables.add(name)

    def _unpacked(self, target: ast.Tuple, value: Any) -> list[str]:
        if isinstance(value, Code) and value.endswith((".shape", ".strides")):
            value = tuple(Code(f"{value}[{i}]") for i in range(len(target.elts)))
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            raise ValueError(f"cupyx.jit cannot unpack {value} to {len(target.elts)} names")
        # All values are computed before the first is assigned: `a, b = b, a`.
        temporaries = [self._fresh() for _ in value]
        lines = [
            f"const auto {t} = {self._expressions.code(v)};"
            for t, v in zip(temporaries, value, strict=True)
        ]
        for each, t, v in zip(target.elts, temporaries, value, strict=True):
            if isinstance(each, ast.Name):
                self._declare(each.id, self._expressions.code(v))
            lines += self._assigned(each, Code(t))
        return ["{", *(f"    {line}" for line in lines), "}"]

    def _AugAssign(self, node: ast.AugAssign) -> list[str]:
        target, value = self._expressions.value(node.target), self._expressions.value(node.value)
        if not isinstance(target, Code):
            raise self._expressions.fail(node, "an assignment to a name outside the kernel")
        if isinstance(node.target, ast.Name):
            return [f"{target} = {self._expressions.binary(node, node.op, target, value)};"]
        place = Code(self._fresh())  # its index is computed once
        text = self._expressions.binary(node, node.op, place, value)
        return [f"{{ auto &{place} = {target}; {place} = {text}; }}"]

    def _AnnAssign(self, node: ast.AnnAssign) -> list[str]:
        if node.value is None:
            return []
        return self._assigned(node.target, self._expressions.value(node.value))

    # ---- control flow --------------------------------------------------------------------------
    def _For(self, node: ast.For) -> list[str]:
        call, target = node.iter, node.target
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Name) or node.orelse:
            raise self._expressions.fail(node, "a loop that is not `for name in range(...)`")
        function = self._expressions.value(call.func)
        if function is not range and not isinstance(function, Range):
            raise self._expressions.fail(node, f"a loop over `{ast.unparse(call)}`")
        given = [self._expressions.value(a) for a in call.args]
        unroll = {k.arg: self._expressions.value(k.value) for k in call.keywords}.get("unroll")
        start, stop, step = {1: (0, *given, 1), 2: (*given, 1), 3: tuple(given)}[len(given)]
        texts = [self._expressions.code(v) for v in (start, stop, step)]
        self._declare(target.id, " + ".join(t for t in texts))
        at, end, by = self._fresh(), self._fresh(), self._fresh()
        lines = [f"const weft_jit::Length {end} = {texts[1]}, {by} = {texts[2]};"]
        if unroll is not None:
            lines.append("#pragma unroll" if unroll is True else f"#pragma unroll({unroll or 1})")
        going = f"{by} > 0 ? {at} < {end} : {at} > {end}"
        loop = self._nested(
            f"for (weft_jit::Length {at} = {texts[0]}; {going}; {at} += {by})", node.body
        )
        loop.insert(1, f"    v_{target.id} = {at};")
        return ["{", *(f"    {line}" for line in (*lines, *loop)), "}"]

    def _While(self, node: ast.While) -> list[str]:
        return self._nested(f"while ({self._expressions.text(node.test)})", node.body)

    def _If(self, node: ast.If) -> list[str]:
        test = self._expressions.value(node.test)
        if not isinstance(test, Code):  # known now
            return self._block(node.body if test else node.orelse)
        lines = self._nested(f"if ({test})", node.body)
        return lines + (self._nested("else", node.orelse) if node.orelse else [])

    def _Break(self, _: ast.Break) -> list[str]:
        return ["break;"]

    def _Continue(self, _: ast.Continue) -> list[str]:
        return ["continue;"]

    def _Pass(self, _: ast.Pass) -> list[str]:
        return []

    def _Return(self, node: ast.Return) -> list[str]:
        value = self._expressions.value(node.value) if node.value else None
        return ["return;" if value is None else f"return {self._expressions.code(value)};"]

    def _Assert(self, node: ast.Assert) -> list[str]:
        return []  # as in CuPy: assertions are for the reader

    def _Expr(self, node: ast.Expr) -> list[str]:
        if isinstance(node.value, ast.Constant):  # a docstring
            return []
        return [f"{self._expressions.text(node.value)};"]


class _Declared:
    """The value of an assignment that a declaration has replaced."""


def _names(function: Any) -> Mapping[str, Any]:
    """Return the names that a function sees: its module's, and those it closes over."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
