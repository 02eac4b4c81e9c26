"""Textures and surfaces for kernels that Python launches: `weft.texture`, `weft.surface`.

    objects.py      the public functions and classes
    memory.py       arrays of the texture unit, and copies to and from them
    structures.py   the structures of the CUDA driver's functions

The same functions of the driver serve both devices: a real GPU has them in libcuda, the simulated
one in the runtime library of whole programs (`frontends/program/shim/textures`).
"""
