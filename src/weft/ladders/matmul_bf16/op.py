"""Matrix product of bfloat16 on tensor cores, with sums in float."""

from weft.measure import Case, Op

op = Op(
    "matmul_bf16",
    "A:bf16[M,K] B:bf16[K,N] -> C:bf16[M,N]",
    reference=lambda A, B: A @ B,
    cases=[
        Case(M=128, N=128, K=64),
        Case(M=80, N=48, K=112, why="ragged: parts of tiles, whole fragments of 16"),
    ],
    bench=[Case(M=n, N=n, K=n) for n in (2048, 4096, 8192)],
    flops="2*M*N*K",
    bytes="2*(M*K + K*N + M*N)",
    peers=["torch.matmul(A, B)"],
    ceiling="compute",
    target="peer 0.95",
)
