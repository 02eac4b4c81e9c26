// Write three kernels: attention of n queries to m keys, with 32 columns, by way of all scores.
// scores:  s[i][j] = (q[i] . k[j]) / sqrt(32). A block takes query i.
// softmax: each row of s becomes its softmax. A warp takes a row.
// weigh:   out[i] = sum over j of s[i][j] * v[j]. A warp takes a query, a lane a column.
__global__ void scores(const float* q, const float* k, float* s, int m) {}
__global__ void softmax(float* s, int m) {}
__global__ void weigh(const float* s, const float* v, float* out, int m) {}
