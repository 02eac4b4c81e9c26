"""The parts of networks: vector add, softmax, layer norm, matmul, attention, dropout."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


@triton.jit
def softmax(x, out, stride, rows, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    """Each program takes every so many rows."""
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + row * stride + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), i < n)


@triton.jit
def layer_norm(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / n
    d = tl.where(i < n, v - m, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    out = d * r * tl.load(w + i, i < n) + tl.load(b + i, i < n)
    tl.store(y + row * stride + i, out, mask=i < n)


@triton.jit
def layer_norm_dx(
    dx, dy, dw, db, x, w, mean, rstd, lock, stride, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """The gradient of the input, and partial sums of those of the weights under locks."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + row * stride + i, mask=mask, other=0).to(tl.float32)
    g = tl.load(dy + row * stride + i, mask=mask, other=0).to(tl.float32)
    weight = tl.load(w + i, mask=mask).to(tl.float32)
    r = tl.load(rstd + row)
    hat = tl.where(mask, (v - tl.load(mean + row)) * r, 0.0)
    wdy = tl.where(mask, weight * g, 0.0)
    c1 = tl.sum(hat * wdy, 0) / n
    c2 = tl.sum(wdy, 0) / n
    tl.store(dx + row * stride + i, (wdy - (hat * c1 + c2)) * r, mask=mask)
    group = row % GROUPS
    count = lock + GROUPS + group
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    part_w, part_b = g * hat, g
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw + group * n + i, mask=mask)
        part_b += tl.load(db + group * n + i, mask=mask)
    tl.store(dw + group * n + i, part_w, mask=mask)
    tl.store(db + group * n + i, part_b, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def layer_norm_dwdb(dw, db, out_w, out_b, m, n, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of the partial gradients."""
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    sum_w = tl.zeros((BM, BN), dtype=tl.float32)
    sum_b = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, m, BM):
        rows = start + tl.arange(0, BM)
        mask = (rows[:, None] < m) & (cols[None, :] < n)
        at = rows[:, None] * n + cols[None, :]
        sum_w += tl.load(dw + at, mask=mask, other=0.0)
        sum_b += tl.load(db + at, mask=mask, other=0.0)
    tl.store(out_w + cols, tl.sum(sum_w, 0), mask=cols < n)
    tl.store(out_b + cols, tl.sum(sum_b, 0), mask=cols < n)


@triton.jit
def relu(x):
    return tl.where(x >= 0, x, 0)


@triton.jit
def matmul(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Programs in groups of rows, so that they share tiles of b."""
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN) * GROUP
    first = pid // across * GROUP
    height = min(tl.cdiv(M, BM) - first, GROUP)
    pm, pn = first + pid % across % height, pid % across // height
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    out = tl.int32 if a.dtype.element_ty.is_int() else tl.float32
    acc = tl.zeros((BM, BN), dtype=out)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        ta = tl.load(pa, mask=rk[None, :] < left, other=0)
        tb = tl.load(pb, mask=rk[:, None] < left, other=0)
        acc = tl.dot(ta, tb, acc, input_precision=PRECISION, out_dtype=out)
        pa += BK * sak
        pb += BK * sbk
    if ACTIVATION == "relu":
        acc = relu(acc)
    om, on = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    mask = (om[:, None] < M) & (on[None, :] < N)
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def attention(
    q, k, v, out, lse, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """Flash attention: one head, BM queries a program."""
    head = tl.program_id(1) * T * D
    qs = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    tq = tl.load(q + head + qs[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else T
    for start in range(0, end, BN):
        ks = start + tl.arange(0, BN)
        tk = tl.load(k + head + ks[None, :] * D + d[:, None])
        s = tl.dot(tq, tk) * (scale * 1.44269504)
        if CAUSAL:
            s = tl.where(qs[:, None] >= ks[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        tv = tl.load(v + head + ks[:, None] * D + d[None, :])
        acc = tl.dot(p.to(tv.dtype), tv, acc * alpha[:, None])
        top = new
    tl.store(lse + tl.program_id(1) * T + qs, top + tl.log2(total))
    acc = acc / total[:, None]
    tl.store(out + head + qs[:, None] * D + d[None, :], acc.to(out.dtype.element_ty))


@triton.jit
def attention_delta(out, do, delta, D: tl.constexpr, BM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    product = tl.load(out + at).to(tl.float32) * tl.load(do + at).to(tl.float32)
    tl.store(delta + rows, tl.sum(product, 1))


@triton.jit
def attention_backward(
    q, k, v, do, dq, dk, dv, lse, delta, scale, T,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """BN keys a program; gradients of queries are added atomically."""
    head = tl.program_id(1) * T * D
    stats = tl.program_id(1) * T
    ks = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    tk = tl.load(k + head + ks[:, None] * D + d[None, :])
    tv = tl.load(v + head + ks[:, None] * D + d[None, :])
    acc_k = tl.zeros((BN, D), tl.float32)
    acc_v = tl.zeros((BN, D), tl.float32)
    begin = tl.program_id(0) * BN // BM * BM if CAUSAL else 0
    for start in range(begin, T, BM):
        qs = start + tl.arange(0, BM)
        tq = tl.load(q + head + qs[:, None] * D + d[None, :])
        g = tl.load(do + head + qs[:, None] * D + d[None, :])
        s = tl.dot(tq, tl.trans(tk)) * (scale * 1.44269504)
        p = tl.exp2(s - tl.load(lse + stats + qs)[:, None])
        if CAUSAL:
            p = tl.where(qs[:, None] >= ks[None, :], p, 0.0)
        acc_v = tl.dot(tl.trans(p.to(g.dtype)), g, acc_v)
        dp = tl.dot(g, tl.trans(tv))
        ds = (p * (dp - tl.load(delta + stats + qs)[:, None]) * scale).to(tq.dtype)
        acc_k = tl.dot(tl.trans(ds), tq, acc_k)
        tl.atomic_add(dq + head + qs[:, None] * D + d[None, :], tl.dot(ds, tk))
    tl.store(dk + head + ks[:, None] * D + d[None, :], acc_k)
    tl.store(dv + head + ks[:, None] * D + d[None, :], acc_v)
