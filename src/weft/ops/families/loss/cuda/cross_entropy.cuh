// The arithmetic of cross-entropy.
//
// With p = softmax(x), label y, w = weight[y], smoothing e, n classes, W = sum(weight):
//   loss     = (1 - e) w (lse - x[y]) + e / n (W lse - sum(weight x))
//   gradient = s ((1 - e) w (p - [c = y]) + e / n (W p - weight[c]))
// s is the gradient of the result; divided by the sum of all w for a mean.
#pragma once
#include <weft/row.cuh>

#include "classes.cuh"

using namespace weft;

constexpr float LOG2E = 1.4426950408889634f;

// The number that exponentials are relative to. Where all elements are -inf the result is NaN, as 0
// / 0.
__device__ inline float base(float most) { return most == lowest() ? 0 : most; }

// 2 to the power of x, for x up to 0, to five digits: of the nearest integer by its bits, of the
// rest by a polynomial.
__device__ inline float polynomial(float x) {
    constexpr float MAGIC =
        12582912;  // 1.5 times 2^23: the last digits of a sum with it are an integer
    x = max_nan(x, -127.0f);               // what is less gives 0
    float whole = x + MAGIC, f = x - (whole - MAGIC);
    float p =
        fmaf(f, 9.5700966e-3f, 5.5917859e-2f);  // relative error up to 2.6e-6 from -0.5 to 0.5
    p = fmaf(f, fmaf(f, fmaf(f, p, 0.24024744f), 0.69312179f), 0.99999928f);
    return p * __int_as_float((__float_as_int(whole) << 23) + 0x3f800000);
}

// exp(x - from). For elements of two bytes `from` is subtracted in the product: its rounding error
// is a common factor of all exponentials, which cancels. From 65,536 on it would be too large, but
// there x is equal to `from` or, with the digits of bf16, at least 512 less: any factor serves.
template <class T>
struct Exponential {
    float from, by;
    __device__ explicit Exponential(float most) : from(base(most)), by(LOG2E) {
        if constexpr (sizeof(T) == 2) {
            by = fabsf(from) < 65536 ? LOG2E : 1;
            from *= by;
        }
    }
    __device__ float operator()(float x) const { return exp2_approx(exponent(x)); }
    __device__ float exponent(float x) const {
        return sizeof(T) == 2 ? fmaf(x, by, -from) : (x - from) * LOG2E;
    }

    // An SM has 16 units for powers of two and 128 for sums and products. Of each four elements of
    // two bytes, the latter compute one (as FlashAttention-4 does): then both take as long.
    __device__ float mixed(float x, int j) const {
        return sizeof(T) == 2 && j % 4 == 3 ? polynomial(exponent(x)) : exp2_approx(exponent(x));
    }
    // The sum of a vector's exponentials and `sum`.
    template <int V>
    __device__ float add(const Packed<T, V>& v, float sum) const {
#pragma unroll
        for (int j = 0; j < V; j++) sum += mixed(v[j], j);
        return sum;
    }
};

// The largest element of a vector; two at a time where they have two bytes.
template <class T, int V>
__device__ float top(const Packed<T, V>& v) {
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
        Packed<T, 2> pair{v.word[0]};
#pragma unroll
        for (int w = 1; w < v.WORDS; w++) pair.word[0] = max_nan_packed<T>(pair.word[0], v.word[w]);
        return max_nan(pair[0], pair[1]);
    } else {
        float most = v[0];
#pragma unroll
        for (int j = 1; j < V; j++) most = max_nan(most, v[j]);
        return most;
    }
}

// The largest of some elements and the sum of their exponentials relative to it; of NaN the sum is
// NaN.
template <class T>
struct Running {
    float most = lowest(), sum = 0;

    __device__ void rise(float to_most) {
        if (to_most > most) {
            sum *= exp2_approx((most - to_most) * LOG2E);  // 0 times 0 at first
            most = to_most;
        }
    }
    template <int V>
    __device__ void take(const Packed<T, V>& v) {
        rise(top(v));
        Exponential<T> e(most);
#pragma unroll
        for (int j = 0; j < V; j++) sum += e(v[j]);
    }
    __device__ void take(const Running& other) {
        rise(other.most);
        sum +=
            other.most == most ? other.sum : other.sum * exp2_approx((other.most - most) * LOG2E);
    }
};

// The sums of a row for smoothing: sum(weight x) and sum(weight).
struct Smooth {
    float x = 0, weight = 0;

    template <class T>
    __device__ void add(float value, int c, const T* weights) {
        float w = weights ? to<float>(weights[c]) : 1;
        x += w * value, weight += w;
    }
    template <class T, int V, bool EVEN>
    __device__ void take(const Packed<T, V>& v, const PackedRow<T, V, EVEN>& r, int chunk,
                         const T* weights) {
        int at = r.place(chunk);
#pragma unroll
        for (int j = 0; j < V; j++)
            if (r.has(at + j)) add(v[j], at + j, weights);
    }
};

// The outcome of a row after its elements have been read: its loss, and the factors of its
// gradient.
template <bool SMOOTH>
struct Outcome {
    float loss, weight;         // for the result
    float of_p, of_label, of_w;  // gradient: of_p * exponential - of_label [c = y] - of_w weight[c]

    // s is the gradient of this row's loss.
    __device__ Outcome(float most, float sum, const Smooth& smooth, int label, float w,
                       float x_label, float s, const Classes& c) {
        float lse = base(most) + logf(sum), e = SMOOTH ? c.smoothing / c.n : 0;
        weight = w;
        if (SMOOTH) w *= 1 - c.smoothing;
        loss = label < 0 ? 0 : w * (lse - x_label);
        if (SMOOTH && label >= 0) loss += e * (smooth.weight * lse - smooth.x);
        if (label < 0) s = 0, sum = 1;
        of_p = s * (w + (SMOOTH ? e * smooth.weight : 0)) / sum;
        of_label = s * w, of_w = s * e;
    }
    template <class T>
    __device__ float gradient(float exponential, int c, const T* weights) const {
        float g = of_p * exponential;
        if (SMOOTH) g -= of_w * (weights ? to<float>(weights[c]) : 1);
        return g;
    }
    // The gradient of a vector whose first element is number `at` of n; those outside the row are
    // not stored.
    template <class T, int V>
    __device__ Packed<T, V> gradients(const Packed<T, V>& v, const Exponential<T>& e, int at, int n,
                                      const T* weights) const {
        return v.map([&](float x, int j) {
            return gradient(e.mixed(x, j), min(max(at + j, 0), n - 1), weights);
        });
    }
};
