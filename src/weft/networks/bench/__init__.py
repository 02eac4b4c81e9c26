"""Times steps of whole networks, by PyTorch and by weft.

cases.py       the cases of a run, and how words name them
contenders.py  the contenders: PyTorch eagerly and compiled, weft's layers, weft's compiler
step.py        a step of a contender over fixed memory: training or inference, as a graph too
worker.py      a contender in a process of its own
session.py     the processes of a case take turns
"""
