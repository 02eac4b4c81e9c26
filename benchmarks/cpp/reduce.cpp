// The tree: one loop over the threads that take part between two barriers.
extern "C" void reduce(int gx, int, const float* __restrict__ x, float* __restrict__ partial,
                       int n) {
    constexpr int THREADS = 256;
    for (int bx = 0; bx < gx; ++bx) {
        float s[THREADS];
        const int first = bx * 2 * THREADS;
        if (first + 2 * THREADS <= n) {
            for (int t = 0; t < THREADS; ++t) s[t] = x[first + t] + x[first + t + THREADS];
        } else {
            for (int t = 0; t < THREADS; ++t) {
                const int i = first + t;
                s[t] = (i < n ? x[i] : 0.0f) + (i + THREADS < n ? x[i + THREADS] : 0.0f);
            }
        }
        for (int half = THREADS / 2; half > 0; half /= 2)
            for (int t = 0; t < half; ++t) s[t] += s[t + half];
        partial[bx] = s[0];
    }
}
