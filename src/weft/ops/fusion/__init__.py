"""`weft.fuse`: a function of tensors as few kernels.

trace.py    runs the function once on fake tensors and records its operations
masks.py    dropout, as masks that kernels compute
table.py    the C++ expression of every operation that a kernel may contain
groups.py   puts operations into groups; each group becomes one kernel
code.py     writes the CUDA C++ of operations; elements.py and rows.py write kernels
launch.py   chooses block and vector sizes for the tensors at hand, and makes the plan
program.py  runs groups and the operations between them
compiled.py makes a call one operation of torch.compile's graphs
fused.py    what the user holds: call, gradient, source, explanation
"""
