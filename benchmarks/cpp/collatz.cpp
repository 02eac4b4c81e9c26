// The Collatz loop: a scalar loop for each thread.
extern "C" void collatz(int gx, int, int* __restrict__ steps, int n) {
    constexpr int THREADS = 256;
    for (int bx = 0; bx < gx; ++bx)
        for (int t = 0; t < THREADS; ++t) {
            const int i = bx * THREADS + t;
            if (i >= n) continue;
            unsigned long long v = i + 1;
            int count = 0;
            while (v != 1) {
                if (v % 2) v = 3 * v + 1;
                else v /= 2;
                ++count;
            }
            steps[i] = count;
        }
}
