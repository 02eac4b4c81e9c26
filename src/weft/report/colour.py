"""Source text as HTML, its comments, strings, numbers and keywords in colour.

One pattern for C++, Python and PTX: a page needs no more than to be easy on the eye.
"""

from __future__ import annotations

import re
from html import escape

_KEYWORDS = """if|else|for|while|do|return|const|int|float|double|char|void|bool|unsigned|long|short
|auto|template|typename|struct|class|static|extern|inline|constexpr|using|namespace|sizeof|switch
|case|break|continue|true|false|half|def|import|from|as|in|range|and|or|not|is|None|True|False
|lambda|with|size_t|int64_t|uint32_t|float2|float4""".replace("\n", "")
_CUDA = """__global__|__device__|__shared__|__restrict__|__host__|__launch_bounds__|__syncthreads
|threadIdx|blockIdx|blockDim|gridDim|tl|cuda""".replace("\n", "")
_TOKEN = re.compile(
    r"(?P<comment>//.*|/\*.*?(?:\*/|$)|(?<!\w)#(?!include|define|pragma|if|else|endif).*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<number>\b(?:0[xXfF][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?f?)\b)"
    rf"|(?P<cuda>\b(?:{_CUDA})\b)"
    rf"|(?P<keyword>\b(?:{_KEYWORDS})\b)"
)


def colour(text: str) -> str:
    """One line."""
    out, at = [], 0
    for found in _TOKEN.finditer(text):
        out.append(escape(text[at : found.start()]))
        out.append(f'<i class="{found.lastgroup}">{escape(found[0])}</i>')
        at = found.end()
    return "".join([*out, escape(text[at:])])
