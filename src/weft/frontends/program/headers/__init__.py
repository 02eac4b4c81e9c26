"""Compiles sources with large headers, such as Thrust's and PyTorch's, which are read only once.

What a compiler made of the headers at the start of a source is kept in the cache: g++'s own
precompiled headers, and images of the processes of NVIDIA's compilers, which have none
(resume.cpp). A source with the same headers and options takes up from there. Everything here
returns None where that cannot be done, and the source is compiled as usual.
"""

from weft.frontends.program.headers.device import UNIT, Side, front_end
from weft.frontends.program.headers.host import object_file, shortened

__all__ = ["UNIT", "Side", "front_end", "object_file", "shortened"]
