// The f16 product with the sums of an H200's tensor core, for finite inputs. A step adds 16 products
// and the sum so far at once: every term is cut toward zero to a multiple of 2^(top - 25), where
// top is the largest exponent among them, and the total is cut to 24 bits.
//
// A product of two halves is exact in float, so the cut is a scaling and a conversion to int; 16
// products of less than 2^27 fit in 32 bits, and the total with the sum so far is kept in 64.
#include <cstdint>
#include <cstring>

#include "half.h"

namespace {
constexpr int BM = 64, BN = 64, BK = 32, STEP = 16, WIDE = 32;
constexpr int NONE = -512;  // exponent of a zero: below every other
constexpr int LEAST = -48;  // no term of halves has a lower exponent: top of a step of zeros

template <class To, class From>
To bits(From v) {
    To out;
    std::memcpy(&out, &v, sizeof out);
    return out;
}

int exponent(half v) {
    const int field = bits<uint16_t>(v) >> 10 & 31;
    return v == half(0) ? NONE : (field ? field : 1) - 15;
}

int exponent(float v) {
    const int field = bits<uint32_t>(v) >> 23 & 255;
    return v == 0.0f ? NONE : (field ? field : 1) - 127;
}

float power(int e) { return bits<float>(uint32_t(e + 127) << 23); }

struct Tile {
    float a[BM][BK], b[BK][BN];
    int ea[BM][BK], eb[BK][BN];
};

void step(const Tile& t, int r, int c, int k0, float* __restrict__ sum) {
    int top[WIDE], total[WIDE] = {};
    float scale[WIDE];
    for (int j = 0; j < WIDE; ++j) {
        const int e = exponent(sum[j]);
        top[j] = e > LEAST ? e : LEAST;
    }
    for (int k = k0; k < k0 + STEP; ++k)
        for (int j = 0; j < WIDE; ++j) {
            const int e = t.ea[r][k] + t.eb[k][c + j];
            top[j] = e > top[j] ? e : top[j];
        }
    for (int j = 0; j < WIDE; ++j) scale[j] = power(25 - top[j]);
    for (int k = k0; k < k0 + STEP; ++k)
        for (int j = 0; j < WIDE; ++j) total[j] += int(t.a[r][k] * t.b[k][c + j] * scale[j]);
    for (int j = 0; j < WIDE; ++j) {
        const int64_t all = int64_t(total[j]) + int(sum[j] * scale[j]);
        const double cut = bits<double>(bits<uint64_t>(double(all)) & ~((uint64_t(1) << 29) - 1));
        sum[j] = float(cut) * power(top[j] - 25);
    }
}
}  // namespace

extern "C" void hgemm_exact(int gx, int gy, const half* __restrict__ A,
                            const half* __restrict__ Bt, float* __restrict__ C, int M, int N,
                            int K) {
    static Tile t;
    for (int by = 0; by < gy; ++by)
        for (int bx = 0; bx < gx; ++bx) {
            float sum[BM][BN] = {};
            for (int k0 = 0; k0 < K; k0 += BK) {
                for (int r = 0; r < BM; ++r)
                    for (int k = 0; k < BK; ++k) {
                        const half v = A[(by * BM + r) * K + k0 + k];
                        t.a[r][k] = float(v);
                        t.ea[r][k] = exponent(v);
                    }
                for (int c = 0; c < BN; ++c)
                    for (int k = 0; k < BK; ++k) {
                        const half v = Bt[(bx * BN + c) * K + k0 + k];
                        t.b[k][c] = float(v);
                        t.eb[k][c] = exponent(v);
                    }
                for (int r = 0; r < BM; ++r)
                    for (int c = 0; c < BN; c += WIDE)
                        for (int k = 0; k < BK; k += STEP) step(t, r, c, k, &sum[r][c]);
            }
            for (int r = 0; r < BM; ++r)
                for (int c = 0; c < BN; ++c) C[(by * BM + r) * N + bx * BN + c] = sum[r][c];
        }
}
