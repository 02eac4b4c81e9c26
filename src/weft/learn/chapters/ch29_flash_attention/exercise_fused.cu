// Write the kernel: causal attention of h heads with n tokens and 16 columns. With
// s[i][j] = (q[i] . k[j]) / 4 for j <= i, out[i] is the sum of softmax(s[i])[j] * v[j], and
// lse[i] is the log of the sum of exp(s[i][j]).
// Block (b, head) takes the queries 64 b to 64 b + 63, a thread takes one of them. Keys and values
// come in tiles of 32 through shared memory; tiles after the last query of a block are skipped.
__global__ void attention(const float* q, const float* k, const float* v, float* out, float* lse,
                          int n) {}
