"""Launches of the rung with vectors: the widest ones that planes consist of."""

import math

from weft import cdiv
from weft.ops.families.norm.structs import ChannelShape

DEFINES = ChannelShape.define()
"""The struct of the kernels of weft.ops that a rung includes."""


def rung_03_vectorised(N, C, S, sms):
    width = math.gcd(S, 4)
    vectors = N * S // width
    blocks = cdiv(vectors, 2048)  # for each channel: eight vectors for each thread
    yield f"statistics<{width}>", C * max(1, min(4 * sms // C, blocks)), 256, 0
    yield f"write<{width}>", C * blocks, 256, 0
