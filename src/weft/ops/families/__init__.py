"""The families of ops: a folder each, found by its name.

op.py       the ops: DEFINITIONS, argument checks, gradients; MAKERS of functions that call ops
model.py    the cost model
cases.py    random calls for the sweep
cuda/       the kernels
README.md   the choice of kernels

The other modules plan kernels. A folder here is all that a new family needs.
"""
