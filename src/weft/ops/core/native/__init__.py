"""Eager calls without Python, in C++ that is compiled when it is first needed.

    build.py     compiles cpp/ with g++ against the headers of the installed torch
    loaded.py    the compiled code, where it may be used
    calls.py     the plans of an op by the arguments of a call
    launches.py  a plan as a step of a program
    trace.py     a formula of a derivative as a program
    record.py    the recipe of a recorded call

Without a compiler, and until the compilation has ended, `function.py` makes calls in Python and
`eager.py` records them.
"""
