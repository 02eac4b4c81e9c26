// Discrete Fourier transforms of 2 to 32 elements in the registers of one thread.
#pragma once

template <int I>
struct Int {
    static constexpr int value = I;
};

// Calls f(Int<I>{}) for I = FIRST to LAST - 1, so that every index is a constant.
template <int FIRST, int LAST, class F>
__device__ __forceinline__ void each(F&& f) {
    if constexpr (FIRST < LAST) {
        f(Int<FIRST>{});
        each<FIRST + 1, LAST>(f);
    }
}

// Cosine and sine of 2 pi k / n by their series in double: constants are rounded to float once.
constexpr double PI = 3.14159265358979323846;
__device__ constexpr double angle(int k, int n) { return 2 * PI * (2 * k > n ? k - n : k) / n; }
__device__ constexpr double cosine(int k, int n) {
    double x = angle(k, n), term = 1, sum = 1;
    for (int i = 1; i < 15; i++) term *= -x * x / ((2 * i - 1) * (2 * i)), sum += term;
    return sum;
}
__device__ constexpr double sine(int k, int n) {
    double x = angle(k, n), term = x, sum = x;
    for (int i = 1; i < 15; i++) term *= -x * x / ((2 * i) * (2 * i + 1)), sum += term;
    return sum;
}

__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ float2 operator*(float a, float2 b) { return {a * b.x, a * b.y}; }
__device__ __forceinline__ float2 operator*(float2 a, float2 b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ __forceinline__ float2 conjugate(float2 a) { return {a.x, -a.y}; }
__device__ __forceinline__ float2 swapped(float2 a) { return {a.y, a.x}; }

// v exp(-2 pi i K / N). Eighths of a turn need no general multiplication.
template <int K, int N>
__device__ __forceinline__ float2 rotated(float2 v) {
    constexpr int k = K % N;
    constexpr float half = 0.70710678118654752440;
    if constexpr (k == 0) return v;
    else if constexpr (4 * k == N) return {v.y, -v.x};
    else if constexpr (2 * k == N) return {-v.x, -v.y};
    else if constexpr (4 * k == 3 * N) return {-v.y, v.x};
    else if constexpr (8 * k == N) return {half * (v.x + v.y), half * (v.y - v.x)};
    else if constexpr (8 * k == 3 * N) return {half * (v.y - v.x), -half * (v.x + v.y)};
    else {
        constexpr float c = cosine(k, N), s = sine(k, N);
        return {v.x * c + v.y * s, v.y * c - v.x * s};
    }
}

// The first factor of a radix: 4 before 2, then the smallest prime.
__device__ constexpr int first_factor(int r) {
    if (r % 4 == 0) return 4;
    for (int p = 2; p < r; p++)
        if (r % p == 0) return p;
    return r;
}

// Odd primes: sums and differences of the elements k and R - k share their products.
template <int R>
__device__ __forceinline__ void prime(float2* v) {
    constexpr int H = (R - 1) / 2;
    float2 sum[H], difference[H], first = v[0];
    each<0, H>([&](auto k) {
        constexpr int K = decltype(k)::value;
        sum[K] = v[K + 1] + v[R - 1 - K];
        difference[K] = v[K + 1] - v[R - 1 - K];
        first = first + sum[K];
    });
    each<1, H + 1>([&](auto m) {
        constexpr int M = decltype(m)::value;
        float2 a = v[0], b = {0, 0};
        each<0, H>([&](auto k) {
            constexpr int K = decltype(k)::value;
            constexpr float c = cosine((K + 1) * M % R, R), s = sine((K + 1) * M % R, R);
            a = {a.x + c * sum[K].x, a.y + c * sum[K].y};
            b = {b.x + s * difference[K].x, b.y + s * difference[K].y};
        });
        // v[0] is read until the end; the others are in sum and difference.
        v[M] = {a.x + b.y, a.y - b.x};
        v[R - M] = {a.x - b.y, a.y + b.x};
    });
    v[0] = first;
}

// v[k] = sum of v[n] exp(-2 pi i k n / R), in natural order.
template <int R>
__device__ __forceinline__ void dft(float2* v) {
    if constexpr (R == 2) {
        float2 a = v[0], b = v[1];
        v[0] = a + b, v[1] = a - b;
    } else if constexpr (R == 4) {
        float2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = rotated<1, 4>(v[1] - v[3]);
        v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
    } else if constexpr (R > 1 && first_factor(R) == R) {
        prime<R>(v);
    } else if constexpr (R > 1) {
        constexpr int A = first_factor(R), B = R / A;
        float2 rows[B][A];
        each<0, B>([&](auto n) {
            constexpr int n2 = decltype(n)::value;
            each<0, A>([&](auto n1) { rows[n2][n1.value] = v[B * n1.value + n2]; });
            dft<A>(rows[n2]);
        });
        each<0, A>([&](auto k) {
            constexpr int k1 = decltype(k)::value;
            float2 column[B];
            each<0, B>([&](auto n) {
                constexpr int n2 = decltype(n)::value;
                column[n2] = rotated<n2 * k1, R>(rows[n2][k1]);
            });
            dft<B>(column);
            each<0, B>([&](auto k2) { v[k1 + A * k2.value] = column[k2.value]; });
        });
    }
}
