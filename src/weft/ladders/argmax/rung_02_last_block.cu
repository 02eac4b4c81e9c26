// rung:   02 last block
// idea:   one launch, 16-byte loads, eight in advance; the block that finishes last combines the
//         pairs of all blocks
// scratch: partial:u64[8*sms] finished:u32[1]
// launch: argmax<<<max(1, min(cdiv(n, 16384), 2 * sms)), 512>>>

#include "../reduce/fold.cuh"

struct Best {
    struct Value {
        float value;
        unsigned place;
    };
    static __device__ Value identity() { return {__int_as_float(0xff800000), ~0u}; }
    static __device__ Value of(float v, size_t i) { return {v, static_cast<unsigned>(i)}; }
    static __device__ Value join(Value a, Value b) {
        bool nan_a = a.value != a.value, nan_b = b.value != b.value;
        bool first = nan_a || nan_b
                         ? nan_a && (!nan_b || a.place < b.place)
                         : a.value > b.value || (a.value == b.value && a.place < b.place);
        return first ? a : b;
    }
    static __device__ Value load(const Value* p) {
        float2 both = __ldcg(reinterpret_cast<const float2*>(p));
        return {both.x, __float_as_uint(both.y)};
    }
};

__global__ void __launch_bounds__(512) argmax(const float* x, long long* y, size_t n,
                                              unsigned long long* partial, unsigned* finished) {
    Best::Value best;
    bool last;
    fold_all<Best, 512, 8>(x, n, reinterpret_cast<Best::Value*>(partial), finished, best, last);
    if (last && threadIdx.x == 0) *y = best.place;
}
