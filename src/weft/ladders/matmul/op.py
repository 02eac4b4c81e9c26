"""Matrix product in float, without tensor cores."""

from weft.measure import Case, Op

op = Op(
    "matmul",
    "A:f32[M,K] B:f32[K,N] -> C:f32[M,N]",
    reference=lambda A, B: A @ B,
    cases=[
        Case(M=128, N=128, K=64),
        Case(M=67, N=45, K=33, why="ragged in all three directions"),
        Case(M=1, N=130, K=5, why="one row"),
    ],
    bench=[Case(M=n, N=n, K=n) for n in (2048, 4096, 8192)],
    flops="2*M*N*K",
    bytes="4*(M*K + K*N + M*N)",
    peers=["torch.matmul(A, B)"],
    ceiling="compute",
    target="peer 1.0",
)
