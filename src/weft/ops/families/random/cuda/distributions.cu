// New tensors of random numbers.
#include <weft/convert.cuh>
#include <weft/philox.cuh>

using namespace weft;

// In [low, high). A number that is rounded to high becomes low, as in torch.
template <class T>
struct Uniform {
    float low, high, range;
    __device__ float4 numbers(uint4 r) const {
        return {uniform(r.x), uniform(r.y), uniform(r.z), uniform(r.w)};
    }
    __device__ T result(float number) const {
        T value = to<T>(fmaf(number, range, low));
        return to<float>(value) == high ? to<T>(low) : value;
    }
};

template <class T>
struct Normal {
    float mean, deviation, unused;
    __device__ float4 numbers(uint4 r) const {
        float2 first = normal(r.x, r.y), second = normal(r.z, r.w);
        return {first.x, first.y, second.x, second.y};
    }
    __device__ T result(float number) const { return to<T>(fmaf(number, deviation, mean)); }
};

// The elements of a thread are 256 * blocks apart, as torch's grid of so many blocks numbers them.
// Each block of this grid does four elements per thread: one pass of one block of torch's.
template <class T, class D>
__global__ void __launch_bounds__(256)
    fill(T* y, const long long* state, long long seed, long long offset, long long n,
         unsigned blocks, float a, float b, float c) {
    PhiloxStart start(state, seed, offset);
    D distribution{a, b, c};
    unsigned pass = blockIdx.x / blocks,
             subsequence = (blockIdx.x - pass * blocks) * 256 + threadIdx.x;
    long long threads = 256ll * blocks, i = pass * 4 * threads + subsequence;
    if (i >= n) return;
    float4 drawn = distribution.numbers(philox(start.seed, subsequence, start.call + pass));
    float numbers[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
    for (int k = 0; k < 4; k++, i += threads)
        if (i < n) y[i] = distribution.result(numbers[k]);
}

// 1 with the probability p[i], else 0. A thread has four neighbours.
template <class T>
__global__ void __launch_bounds__(256)
    bernoulli(const T* p, T* y, const long long* state, long long seed, long long offset,
              long long n, unsigned blocks) {
    PhiloxStart start(state, seed, offset);
    unsigned pass = blockIdx.x / blocks,
             subsequence = (blockIdx.x - pass * blocks) * 256 + threadIdx.x;
    long long i = (blockIdx.x * 256ll + threadIdx.x) * 4;
    if (i >= n) return;
    uint4 r = philox(start.seed, subsequence, start.call + pass);
    unsigned bits[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (i + k < n) y[i + k] = to<T>(uniform(bits[k]) <= to<float>(p[i + k]) ? 1.0f : 0.0f);
}

// ---- permutations -------------------------------------------------------------------------------
// The rank of element i among n random keys is its place. n is small: each block computes all keys.
template <class T>
__global__ void __launch_bounds__(256)
    ranks(T* y, const long long* state, long long seed, long long offset, int n) {
    extern __shared__ unsigned long long keys[];
    PhiloxStart start(state, seed, offset);
    for (int i = threadIdx.x; 2 * i < n; i += 256) {
        uint4 r = philox(start.seed, i, start.call);
        keys[2 * i] = static_cast<unsigned long long>(r.x) << 32 | r.y;
        if (2 * i + 1 < n) keys[2 * i + 1] = static_cast<unsigned long long>(r.z) << 32 | r.w;
    }
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    unsigned long long key = keys[i];
    int place = 0;
    for (int k = 0; k < n; k++) place += keys[k] < key || (keys[k] == key && k < i);
    y[place] = i;
}

// A bijection of the numbers below 2^(low + high), of a Feistel network: the two halves of the bits
// change each other in turns. Results of n and more go through it again until one is below n; each
// i then leads to another one. (Mitchell, Stokes, Frank and Holmes, "Bandwidth-optimal random
// shuffling for GPUs", 2022, compare such ciphers.)
__device__ inline unsigned mixed(unsigned x, unsigned key) {
    unsigned long long product = 0xD2511F53ull * (x ^ key);
    return unsigned(product >> 32) ^ unsigned(product);
}

template <class T>
__global__ void __launch_bounds__(256) shuffle(T* y, const long long* state, long long seed,
                                               long long offset, long long n, int low, int high) {
    constexpr int ROUNDS = 24;
    __shared__ uint4 keys[ROUNDS / 4];
    PhiloxStart start(state, seed, offset);
    if (threadIdx.x < ROUNDS / 4) keys[threadIdx.x] = philox(start.seed, threadIdx.x, start.call);
    __syncthreads();
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= n) return;
    unsigned low_mask = (1ull << low) - 1, high_mask = (1ull << high) - 1;
    unsigned left = unsigned(i >> low), right = unsigned(i) & low_mask;
    long long place;
    do {
#pragma unroll
        for (int round = 0; round < ROUNDS / 4; round++) {
            uint4 key = keys[round];
            right ^= mixed(left, key.x) & low_mask;
            left ^= mixed(right, key.y) & high_mask;
            right ^= mixed(left, key.z) & low_mask;
            left ^= mixed(right, key.w) & high_mask;
        }
        place = static_cast<long long>(left) << low | right;
    } while (place >= n);
    y[i] = place;
}
