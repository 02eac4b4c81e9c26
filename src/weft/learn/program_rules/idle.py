"""Makes programs whose calls of one function do nothing.

A macro takes the place of a call. Its result is a zero of the same type, which is the success of
NVIDIA's libraries, and its arguments are not evaluated.
"""

from __future__ import annotations

import re


def function(text: str, name: str) -> str:
    """The program without the calls of a function."""
    macro = f"IDLE_{re.sub(r'[^0-9A-Za-z]+', '_', name)}"
    calls = re.sub(rf"\b{re.escape(name)}\s*\(", f"{macro}(", text)
    # Variables that only the call used are set and never used then: no warning for the author.
    quiet = "#pragma nv_diag_suppress 550"
    return f"{quiet}\n#define {macro}(...) decltype({name}(__VA_ARGS__))()\n{calls}"
