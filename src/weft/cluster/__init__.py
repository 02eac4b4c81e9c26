"""Spread tasks over worker processes: of this machine, or of a Ray cluster.

processes.py  workers of this machine; a task that ends its process costs that task alone
connect.py    joins a Ray cluster, or starts Ray on this machine; the errors of addresses
worker.py     the actor that does tasks on a node
notes.py      what a worker is doing, so that the cause of its end is known
team.py       hires one actor for each GPU or CPU and refuses other versions of weft
spread.py     gives tasks to a team, repeats those whose worker has ended
journal.py    results on disk, from which an interrupted command goes on

Both `run` functions have one contract: the number of each task with its answer, as they finish.
Ray is imported when a cluster is asked for, and only here.
"""
