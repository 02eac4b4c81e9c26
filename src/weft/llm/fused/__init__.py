"""A decoding step of a few texts in one launch.

model.py    the weights of a model as the kernel reads them, or the reason why it does not
plan.py     the kernel's configuration, and where parts of shared memory are
structs.py  the struct that the kernel takes
step.py     the step: its memory and its launch
"""
