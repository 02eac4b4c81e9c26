"""`weft train gpt`: a GPT of any size, trained on a text.

tokens.py      texts as tokens: bytes, or pairs of bytes that are often together
text.py        a text from a file or from weft's own documents, and windows of it
settings.py    how to train, and the size of the network
contenders.py  the network and its update on weft's kernels or on PyTorch's, from the same weights
step.py        one training step; on a GPU as a CUDA graph
loop.py        steps, evaluation; checkpoint.py: files; sample.py: texts by the trained network
"""
