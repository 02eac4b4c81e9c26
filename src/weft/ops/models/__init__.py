"""Layer calls of public models: `weft bench models`.

models.toml  the sizes of public models, with their sources
config.py    reads them
calls.py     a call of an op with its tensors, and the work that it is
layers.py    the layers of a model, by rules
draw.py      draws calls by a seed; makes the calls that words name
cases.py     the judges and peers of these calls, most of them the sweep's
small.py     the same models with few channels, for the simulated GPU
"""
