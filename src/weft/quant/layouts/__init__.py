"""Quantised weights in the layouts of other packages, as weft's.

A layout is a function from the tensors of one linear layer, a `Source`, to an `Imported`.
"""

# The modules:
#   imported.py            `Imported`: a weight, and what its layer does with inputs
#   joining.py             `join`: the rows of several weights as one
#   source.py              `Source`: the stored tensors of one layer, checked as they are read
#   words.py               integers of 4 and 8 bits in words of 32
#   groups.py              `group_size`: the columns that share a scale, from a config.json
#   assembling.py          `assemble`: numbers, scales and zeros to a `Quantised`
#   ordering.py            `ordered`: columns whose groups are not neighbours
#   gptq.py awq.py compressed_tensors.py float8.py   the layouts of folders
#   tinygemm.py torchao.py the layouts of torchao's tensors
#   methods.py             `layout_of`: the layout that a config.json names
