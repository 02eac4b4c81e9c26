// Tiles of C in bands of eight rows, column by column: tiles with neighbouring numbers share rows
// of A and columns of B, which they then find in the L2.
#pragma once

__device__ inline int2 in_bands(int id, int down, int across) {
    constexpr int BAND = 8;
    int band = id / (BAND * across) * BAND, rest = id - band * across;
    int high = min(BAND, down - band);
    return make_int2(band + rest % high, rest / high);
}
