"""Defines the cell magic `%%cuda`, which compiles a cell and binds its kernels as names.

    %%cuda --name module -D TILE=32
    __global__ void scale(float* x, int n) { ... }

`%load_ext weft` registers it. This module does not import IPython.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from typing import Any, NoReturn

from weft.errors import ArgumentError, CompileWarning
from weft.kernels.module import CudaModule
from weft.tasks import compile
from weft.tasks.compile import CompileOptions


def register(shell: Any) -> None:
    """Registers the magic in a shell of IPython."""

    def magic(line: str, cell: str) -> None:
        _cuda(shell, line, cell)

    magic.__doc__ = _parser().format_help()
    shell.register_magic_function(magic, "cell", "cuda")


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting: a misspelt option must not end the notebook's kernel."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(
            "%%cuda cannot read its options", got=message, allowed=self.format_usage().strip()
        )


def _parser() -> _Parser:
    p = _Parser("%%cuda", add_help=False, allow_abbrev=False)
    p.add_argument("--name", default="", help="also bind the module to this name")
    p.add_argument("-D", dest="defines", action="append", default=[], metavar="X=1")
    p.add_argument("-I", dest="include", action="append", default=[], metavar="FOLDER")
    p.add_argument("--std", default="c++17")
    p.add_argument("--fast-math", action="store_true")
    p.add_argument("--device", default="sim", help="sim, sim:MODEL, gpu or gpu:N")
    p.add_argument(
        "--option", dest="flags", action="append", default=[], help="pass an option to NVRTC"
    )
    return p


def _cuda(shell: Any, line: str, cell: str) -> None:
    """Compile a cell. Line numbers match the notebook's: the magic is line 1."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ArgumentError("%%cuda cannot read its line", got=f"{line} ({error})") from None
    parsed = _parser().parse_args(words)
    if parsed.name and not parsed.name.isidentifier():
        raise ArgumentError("--name must be a Python identifier", got=parsed.name)
    asked = CompileOptions(
        "\n" + cell,
        name=f"cell_{shell.execution_count}.cu",
        defines=parsed.defines,
        include=parsed.include,
        std=parsed.std,
        fast_math=parsed.fast_math,
        device=parsed.device,
        flags=parsed.flags,
    )
    # Python would show the line of weft that warns; only the text matters here.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CompileWarning)
        module = compile.module(asked)
    for one in caught:
        print(f"warning: {one.message}", file=sys.stderr)
    _bind(shell, module, parsed.name)


def _bind(shell: Any, module: CudaModule, name: str) -> None:
    """Binds kernels to their names, and the module to the name given by --name."""
    # Instances of templates, such as f<float>, are not Python names.
    kernels = {n: module.kernel(n) for n in module.names if n.isidentifier()}
    if not kernels and not name:
        raise ArgumentError(
            "no kernel of this cell can be bound to a name",
            got=", ".join(module.names) or "no __global__ function",
            next='templates are instantiated by name: %%cuda --name m, then m.kernel("f<float>")',
        )
    shell.push({**kernels, **({name: module} if name else {})})
    for kernel in kernels.values():
        print(kernel.packer.signature())
