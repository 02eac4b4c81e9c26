// The ladder's operation as the kernels of weft.ops describe it.
#pragma once
#include "../../ops/families/attention/cuda/problem.cuh"

__device__ inline Problem causal(int b, int h, int m, int s, int d, int parts = 1) {
    Problem p = {};
    p.q = p.o = {1ll * h * m * d, 1ll * m * d, d}, p.k = p.v = {1ll * h * s * d, 1ll * s * d, d};
    p.batch = b, p.heads = h, p.group = 1, p.rows = m, p.keys = s, p.depth = p.width = d;
    p.causal = m > 1, p.pack = 1, p.parts = parts, p.scale = 1.44269504f * rsqrtf(d);
    p.left = 1 << 30, p.right = p.causal ? 0 : 1 << 30;  // no window
    // Heads whose keys and values L2 holds, in equal numbers, but enough for all SMs at the end.
    int all = b * h, least = 264 * 2 / ((m + 127) / 128 + 1);
    int each = max((25 << 20) / (4 * s * d), least);
    p.together = (all + max(1, all / max(1, each)) - 1) / max(1, all / max(1, each));
    return p;
}
