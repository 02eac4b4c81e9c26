// Write the kernel. Row r was computed in count[r] parts, each over other keys: part p has the
// result part[p][r] and the log-sum-exp lse[p][r]. Rows of parts from count[r] on hold nothing.
// out[r] is the result over all keys, total[r] its log-sum-exp. A block takes a row.
__global__ void merge(const float* part, const float* lse, const int* count, float* out,
                      float* total, int n, int d) {}
