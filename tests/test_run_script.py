"""`weft run script.py`: arguments, exit codes, tracebacks and Ctrl-C as under plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import weft

SOURCE = str(Path(weft.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "NO_COLOR": "1"}


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


PLAIN = {
    "arguments": "import sys; print(sys.argv)",
    "main": "print(__name__, __file__, __spec__, __doc__)",
    "imports beside it": "import beside; print(beside.x)",
    "exit code": "import sys; sys.exit(3)",
    "exit with a text": "import sys; sys.exit('no')",
    "exit with nothing": "raise SystemExit",
    "traceback": "def f():\n    return 1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "syntax error": "if True\n    print(1)",
    "pickles of its own classes": "import pickle\n"
    "class A: x = 5\n"
    "print(pickle.loads(pickle.dumps(A())).x)",
    "at exit": "import atexit; atexit.register(print, 'bye'); print('hello')",
    "standard input": "print(input())",
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN.keys())
def test_as_plain_python(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    write(tmp_path, "x = 7", "beside.py")
    arguments = ["script.py", "one", "--two", "-h", "--device=x"]
    runs = [
        subprocess.run(
            [sys.executable, *command, *arguments], cwd=tmp_path, env=ENVIRONMENT, text=True,
            capture_output=True, input="typed\n", timeout=120,
        )
        for command in ([], ["-m", "weft", "run"])
    ]  # fmt: skip
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == runs[1].stderr
    assert runs[0].returncode == runs[1].returncode
