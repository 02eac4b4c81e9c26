// Tokens drawn from rows of logits: temperature, the k most probable ones, those of mass p.
#include <weft/block.cuh>
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>
#include <weft/philox.cuh>

using namespace weft;

STRUCT_DRAW  // see structs.py

// A number for each row: a tensor with one for all of them has step 0.
    template <class T>
    struct PerRow {
    const T* first;
    int step;
    __device__ T operator[](int row) const { return first[row * step]; }
};

// A token and its score; the larger score wins, and the first of equal ones.
struct Best {
    float score;
    int token;
};
struct Better {
    __device__ Best operator()(Best a, Best b) const {
        return b.score > a.score || (b.score == a.score && b.token < a.token) ? b : a;
    }
};

// Unsigned numbers in the order of floats; 0.0 and -0.0 are equal.
__device__ inline unsigned key_of(float x) {
    unsigned bits = __float_as_uint(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

// The parts into which a search divides a range of keys in each pass.
constexpr int PARTS = 8;
template <class W>
struct Weights {
    W from[PARTS];  // the weight of all keys from the beginning of a part on; [0] is not used
};
struct PlusWeights {
    template <class W>
    __device__ Weights<W> operator()(Weights<W> a, const Weights<W>& b) const {
#pragma unroll
        for (int i = 1; i < PARTS; ++i) a.from[i] += b.from[i];
        return a;
    }
};

// The logits of a row, as the THREADS threads of a block read them: V at a time. NaN is -infinity.
template <class T, int V, int THREADS>
struct Logits {
    const T* row;
    int n;

    template <class Use>
    __device__ void each(Use use) const {
        for (int i = threadIdx.x * V; i < n; i += THREADS * V) {
            Vector<float, V> x = to_floats(load<V>(row + i));
#pragma unroll
            for (int j = 0; j < V; ++j) use(x[j] == x[j] ? x[j] : lowest(), i + j);
        }
    }

    // Returns the largest key for which the weights of it and of all larger keys reach `wanted`, or
    // `low` if there is none. Keys are at most `high`. All threads of the block call it.
    template <class W, class Weigh>
    __device__ unsigned threshold(unsigned low, unsigned high, W wanted, Weigh weigh) const {
        W above = 0;  // the weight of keys larger than `high`
        while (low < high) {
            unsigned step = (high - low) / PARTS + 1;
            Weights<W> found = {};
            each([&](float x, int) {
                unsigned key = key_of(x);
                if (key < low || key > high) return;
                unsigned part = (key - low) / step;
                W weight = weigh(x);
#pragma unroll
                for (unsigned i = 1; i < PARTS; ++i) found.from[i] += i <= part ? weight : W(0);
            });
            found = block_reduce<THREADS>(found, Weights<W>{}, PlusWeights());
            unsigned first = low, last = high;
            W beyond = above;
#pragma unroll
            for (unsigned i = 1; i < PARTS; ++i) {
                if (i * step > last - low) break;  // no key of the range is in this part
                if (above + found.from[i] >= wanted) {
                    first = low + i * step;
                } else {
                    high = first + step - 1;
                    beyond = above + found.from[i];
                    break;
                }
            }
            low = first;
            high = high < last ? high : last;
            above = beyond;
        }
        return low;
    }
};

// A block draws the token of a row. Token i wins with its probability if its score is the largest:
// log(probability) - log(E), with an exponentially distributed E of its own (Gumbel, 1954). So
// neither probabilities nor their sums are in memory. Draw is a struct of Python.
template <class T, int V, int THREADS>
__global__ void __launch_bounds__(THREADS)
    sample(const T* logits, const float* temperatures, const int* top_ks, const float* top_ps,
           const long long* seeds, const int* positions, long long* tokens, const Draw d) {
    take_turn();
    int row = blockIdx.x;
    Logits<T, V, THREADS> x{logits + row * d.row_stride, d.tokens};
    float temperature = PerRow<float>{temperatures, d.temperature_step}[row];
    int k = PerRow<int>{top_ks, d.top_k_step}[row];
    float p = PerRow<float>{top_ps, d.top_p_step}[row];
    const Best none = {lowest(), 0x7fffffff};

    Best best = none;
    float least = -lowest();
    x.each([&](float v, int i) {
        best = Better()(best, {v, i});
        least = fminf(least, v);
    });
    best = block_reduce<THREADS>(best, none, Better());
    if (temperature > 0.0f) {
        float largest = best.score;
        unsigned low = key_of(block_reduce<THREADS>(least, -lowest(), Minimum()));
        unsigned high = key_of(largest);
        auto exponent = [=](float v) { return v == largest ? 0.0f : (v - largest) / temperature; };
        auto mass = [=](float v) { return expf(exponent(v)); };
        if (k > 0 && k < d.tokens) low = x.threshold(low, high, k, [](float) { return 1; });
        if (p < 1.0f) {
            float total = 0.0f;
            x.each([&](float v, int) { total += key_of(v) >= low ? mass(v) : 0.0f; });
            low = x.threshold(low, high, p * block_sum<THREADS>(total), mass);
        }
        unsigned long long seed = PerRow<long long>{seeds, d.seed_step}[row];
        unsigned position = PerRow<int>{positions, d.position_step}[row];
        uint4 words;
        int drawn = -1;  // the four tokens that `words` are for
        best = none;
        x.each([&](float v, int i) {
            if (key_of(v) < low) return;
            if (drawn != i / 4) drawn = i / 4, words = philox(seed, position, drawn);
            unsigned word = i % 4 == 0   ? words.x
                            : i % 4 == 1 ? words.y
                            : i % 4 == 2 ? words.z
                                         : words.w;
            // log1p has all digits where E is small, and the smallest E decides.
            float e = -log1pf(-uniform(word));
            best = Better()(best, {exponent(v) - logf(e), i});
        });
        best = block_reduce<THREADS>(best, none, Better());
    }
    if (threadIdx.x == 0) tokens[row] = best.token;
}
