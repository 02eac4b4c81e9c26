"""Recorded eager calls without Python: autograd nodes in C++, compiled when they are first needed.

    build.py     compiles cpp/ with g++ against the headers of the installed torch
    launches.py  a plan as a step of a program
    trace.py     a formula of a derivative as a program
    record.py    the recipe of a recorded call

Without a compiler, and until the compilation has ended, `eager.py` records calls in Python.
"""
