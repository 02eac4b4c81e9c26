"""Compiles cpp/module.cpp with g++ in the background, and keeps the result in weft's cache."""

from __future__ import annotations

import atexit
import functools
import importlib.machinery
import importlib.util
import itertools
import shutil
import subprocess
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from weft import cache
from weft.device.gpu import machine, native_launch

FOLDER = Path(__file__).parent / "cpp"
NAME = "weft_native"
TORCH = Path(torch.__file__).parent
_LIBRARIES = ("torch_python", "torch_cpu", "c10")
WORTH = 100
"""Calls from which on it is compiled: a process with fewer ends before they are faster."""
_ASKED = itertools.count()


class Build:
    """One compilation. `module` is None until it has ended, and if it cannot be."""

    def __init__(self) -> None:
        self.module: Any = None
        self.failure = ""
        self._compiler: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="weft-native", daemon=True)
        atexit.register(self._stop)
        self._thread.start()

    def wait(self) -> Any:
        """The module, when the compilation has ended."""
        self._thread.join()
        return self.module

    def _run(self) -> None:
        compiler = shutil.which("g++")
        if compiler is None or not machine.is_known_python():
            self.failure = "there is no g++" if compiler is None else "this Python is not known"
            return
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, encoding="utf-8"
        ).stdout
        text = "".join(path.read_text("utf-8") for path in sorted(FOLDER.iterdir()))
        key = cache.key("native ops", version, torch.__version__, *_flags(), _python(), text)
        with tempfile.TemporaryDirectory(prefix="weft-") as folder:
            path = Path(folder) / f"{NAME}.so"
            data = cache.get("library", key)
            if data is not None:
                path.write_bytes(data)
            elif self._compiled(compiler, path):
                cache.put("library", key, path.read_bytes())
            else:
                return
            self.module = _loaded(path)

    def _compiled(self, compiler: str, path: Path) -> bool:
        command = [compiler, *_flags(), str(FOLDER / "module.cpp"), "-o", str(path), *_link()]
        self._compiler = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
        )
        output, _ = self._compiler.communicate()
        if self._compiler.returncode:
            lines = (line for line in output.splitlines() if "error" in line)
            self.failure = next(lines, output[-400:])
        return self._compiler.returncode == 0

    def _stop(self) -> None:
        """Ends the compilation when the process ends first."""
        if self._compiler is not None and self._compiler.poll() is None:
            self._compiler.terminate()


@functools.cache
def started() -> Build:
    """The compilation of this process; the first call starts it."""
    return Build()


def asked() -> Build | None:
    """The compilation, from the moment when it is worth its time; each call asks for it."""
    if next(_ASKED) < WORTH and not started.cache_info().currsize:
        return None
    return started()


def _python() -> str:
    return str(sysconfig.get_config_var("SOABI"))


def _flags() -> list[str]:
    includes = [TORCH / "include", TORCH / "include/torch/csrc/api/include"]
    system = [*map(str, includes), sysconfig.get_path("include")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    limits = [f"-DLAUNCH_{name}={getattr(native_launch, name)}" for name in ("ROOM", "MANY")]
    return ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden",
            # Otherwise torch includes the headers of all its ops, which takes half of the time.
            "-DAT_PER_OPERATOR_HEADERS", abi, *limits,
            *(part for folder in system for part in ("-isystem", folder))]  # fmt: skip


def _link() -> list[str]:
    """The libraries, which the process has loaded already."""
    return [f"-L{TORCH / 'lib'}", *(f"-l{name}" for name in _LIBRARIES)]


def _loaded(path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
