"""`weft.fuse`: a function of tensors as few kernels.

trace.py    runs the function once on fake tensors and records its operations
table.py    the C++ expression of every operation that a kernel may contain
groups.py   puts operations into groups; each group becomes one kernel
code.py     writes the CUDA C++ of a group
launch.py   chooses block and vector sizes for the tensors at hand, and makes the plan
program.py  runs groups and the operations between them
fused.py    what the user holds: call, gradient, source, explanation
"""
