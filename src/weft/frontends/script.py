"""Runs an unedited Python script with its kernels on the simulated GPU.

A front end is installed right after the script imports its package. A script that imports none of
these packages runs as under plain Python.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import json
import os
import runpy
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, NamedTuple

from weft import interrupted
from weft.device import models
from weft.device.selection import Selection, select
from weft.device.sim.run import settings
from weft.errors import Error
from weft.frontends import embedded, for_scripts, race_hint, stand_ins, supplied
from weft.frontends import triton as triton_front_end
from weft.frontends.pytorch import inductor
from weft.installation import pip_install

_EXTRAS = ("torch", "triton", "numba")
"""Optional packages; each is an extra of the same name."""

VARIABLE = "WEFT_SCRIPT"
"""The environment variable that holds the options for child processes."""

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
"""Its `sitecustomize.py` installs the hooks in a Python process that the script starts."""

Hook = Callable[[], None]


class ScriptOptions(NamedTuple):
    """The options of `weft run` for scripts."""

    gpu: str
    autotune: bool = False
    show_kernels: bool = False
    gpus: int = 1


def run(
    path: str,
    args: Sequence[str],
    *,
    device: str | Selection = "sim",
    autotune: bool = False,
    show_kernels: bool = False,
    gpus: int = 1,
    module: bool = False,
    on_torch: Callable[[Any], None] | None = None,
) -> int:
    """Run a script like `python path args...` and return its exit code.

    device        "sim" and "sim:MODEL" simulate; "gpu" leaves everything as it is
    autotune      autotuners time all configurations instead of taking the first valid one
    show_kernels  prints the Triton kernels that `torch.compile` writes
    gpus          the number of GPUs that torch and the driver report; all ranks of a script share
                  one simulation
    module        `path` is the name of a module: like `python -m path args...`
    on_torch      called with the mode that sees every operation of torch, if it is imported
    """
    chosen = select(device)  # an unknown word is reported before the script begins
    chosen.first("a script chooses its GPU itself")
    code = None if module else _compiled(path)
    if isinstance(code, int):
        return code
    if not chosen.real:
        install(ScriptOptions(chosen.simulated.key, autotune, show_kernels, gpus), on_torch)
    sys.argv = [path, *args]
    # As Python does: imports next to the script, or in the current folder, work.
    sys.path[0] = os.getcwd() if code is None else os.path.dirname(os.path.abspath(path))
    body = _module(path) if code is None else _script(code, path)
    hint = None if chosen.real else _race_hint(path)
    ended = _ended(body)
    if hint is not None:
        hint.report()
    return ended


def _script(code: types.CodeType, path: str) -> Hook:
    """Run a compiled script as a new `__main__`."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=os.path.abspath(path), __builtins__=builtins)
    # Pickle and multiprocessing look up the script's classes in __main__.
    sys.modules["__main__"] = main
    return lambda: exec(code, main.__dict__)


def _module(name: str) -> Hook:
    """Run a module, or the `__main__` of a package."""
    try:
        known = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package in the name
        known = False
    if not known:
        raise Error("there is no such Python module", got=name, next="weft run FILE runs a file")

    def body() -> None:
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return body


def _race_hint(path: str) -> race_hint.RaceHint | None:
    """Search the launches of this process for races, unless the hint is off or a tool runs."""
    patience = race_hint.patience()
    if not patience:
        return None
    command = f"weft run --sanitize {os.path.basename(path)}"
    hint = race_hint.RaceHint(_say, command, patience)
    settings.before_launch = hint.look_at
    return hint


def _say(text: str) -> None:
    print(f"weft: {text}", file=sys.stderr)


def after_import(hooks: Mapping[str, Hook]) -> None:
    """Register hooks that run right after the import of their modules."""
    sys.meta_path.insert(0, _AfterImport(hooks))


def _compiled(path: str) -> types.CodeType | int:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise Error("cannot read the script", where=path, got=error.strerror or "") from None
    try:
        return compile(text, os.path.abspath(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1


def _ended(body: Hook) -> int:
    """Run a body like Python's top level and return its exit code."""
    try:
        body()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"weft: interrupted{_line(error)}", file=sys.stderr)
        return interrupted.exit_code()
    except BaseException as error:
        here = error.__traceback__
        # Skip the frames of `_ended` and of the exec call.
        inside = here.tb_next.tb_next if here and here.tb_next else None
        sys.excepthook(type(error), error.with_traceback(inside), inside)
        if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
            print(f"weft: {pip_install(error.name)} installs it", file=sys.stderr)
        return 1
    return 0


def _line(error: BaseException) -> str:
    """The innermost line of the script in a traceback."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return f" at {sys.argv[0]}:{lines[-1]}" if lines else ""


def install(options: ScriptOptions, on_torch: Callable[[Any], None] | None = None) -> None:
    """Register the hooks of all front ends, here and in Python processes that start later."""
    embedded.use(f"sim:{options.gpu}", options.gpus)
    after_import({**_hooks(options), "torch": functools.partial(_torch, options, on_torch)})
    stand_ins.install(supplied())
    os.environ[VARIABLE] = json.dumps(options)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _CHILD not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([_CHILD, *filter(None, paths)])


def _hooks(options: ScriptOptions) -> dict[str, Hook]:
    """Module -> hook to run after its import."""
    model = models.get(options.gpu)
    ends: dict[str, Hook] = {
        module: functools.partial(install, options.gpu) for module, install in for_scripts().items()
    }
    ends["triton"] = functools.partial(_triton, options)
    compiled = inductor.hooks(model, autotune=options.autotune, show=options.show_kernels)
    return {**ends, **compiled}


def _triton(options: ScriptOptions) -> None:
    triton_front_end.install(options.gpu, autotune=options.autotune)


def _torch(options: ScriptOptions, then: Callable[[Any], None] | None) -> None:
    """Redirect CUDA tensors to the CPU and track tensors whose address is read."""
    from weft.frontends import addresses
    from weft.frontends.pytorch import redirect

    mode = redirect.install(models.get(options.gpu), addresses.allow, options.gpus)
    if then is not None:
        then(mode)


class _AfterImport(MetaPathFinder):
    """A finder that wraps the loader of a module, found by other finders, to run a hook."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = dict(hooks)
        self._searched: set[tuple[str, int]] = set()
        """Modules that other finders search now, and the threads that import them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        search = name, threading.get_ident()
        # A second finder of this class among the others asks this one in turn.
        if name not in self._hooks or search in self._searched:
            return None
        self._searched.add(search)
        try:
            for finder in sys.meta_path:
                spec = None if finder is self else finder.find_spec(name, path, target)
                if spec is not None and spec.loader is not None:
                    spec.loader = _Then(spec.loader, self._hooks[name])
                    return spec
        finally:
            self._searched.remove(search)
        return None


class _Then(Loader):
    """Runs a module's own loader, then a hook; the module keeps its own loader."""

    def __init__(self, loader: Loader, hook: Hook) -> None:
        self._loader, self._hook = loader, hook

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # Restored, so that importlib.resources and inspect work as usual.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook()
