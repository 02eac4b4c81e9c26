// Transpose through a padded tile, a loop over the threads before and after the barrier.
extern "C" void transpose(int gx, int gy, const float* __restrict__ x, float* __restrict__ y,
                          int rows, int cols) {
    constexpr int T = 32;
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx) {
            float tile[T][T + 1];
            const int row = by * T, col = bx * T;
            const int high = rows - row < T ? rows - row : T;
            const int wide = cols - col < T ? cols - col : T;
            for (int r = 0; r < high; ++r)
                for (int c = 0; c < wide; ++c) tile[r][c] = x[(row + r) * cols + col + c];
            for (int c = 0; c < wide; ++c)
                for (int r = 0; r < high; ++r) y[(col + c) * rows + row + r] = tile[r][c];
        }
}
