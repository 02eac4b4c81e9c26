"""Compiled graphs on disk: a second process traces no passes and divides no graph into steps.

keys.py      what a compiled graph depends on, as the key of its entry
programs.py  the steps of a graph as bytes
entries.py   writes and reads entries, with what AOTAutograd needs around the programs

Kernels and plans are not part of an entry: they have caches of their own.
"""
