"""Random CUDA C++ on the simulated GPU against the same program compiled by g++, bit for bit.

nodes.py          a program as data
operations.py collectives.py   rows: expressions of a thread, operations of a warp or a block
values.py generate.py          draw a program by its name
expressions.py statements.py render.py layout.py   write it as CUDA C++ and as C++
inputs.py execute.py           run both and compare
batch.py          the programs of a seed, several in a kernel
minimise.py       the smallest program that still differs
findings.py       a finding as data and as text
judge.py          the function that a process runs: programs to findings
device.h host.h both.h         what the rendered programs include
"""
