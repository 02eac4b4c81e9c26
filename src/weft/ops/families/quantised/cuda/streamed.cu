// Weight-only products with up to 16 tokens on Hopper: blocks stay, and one thread of each keeps
// copies of weights under way, rows after rows, in a ring of stages. `skinny` reads weights
// straight to registers; its blocks are short, and memory is idle while they begin and end.
//
// A stage has STEP of K of the rows of all warps. The weights of a warp's lanes are neighbours
// there. The tokens are in shared memory for all of K, arranged, each lane's in the order of its
// steps, and so are the sums of x that zero points multiply.
#include <weft/block.cuh>
#include <weft/pipeline.cuh>
#include "skinny_sums.cuh"

// STAGES of the ring. See skinny.cu and skinny_sums.cuh for others.
template <Weights F, class T, class S, int TOKENS, int UNITS, int PAIRS, int STAGES, bool GROUPED,
          bool ZERO>
__global__ void __launch_bounds__(288)
    streamed(const __grid_constant__ TensorMap weight, const T* x, const S* scales, const S* zeros,
             const T* bias, T* y, const __grid_constant__ QuantisedProblem p) {
    using Sums = SkinnySums<F, T, S, TOKENS, UNITS, PAIRS, ZERO, true>;
    constexpr int WARPS = 8, EIGHTS = Sums::EIGHTS, ACROSS = Sums::ACROSS, EACH = Sums::EACH;
    constexpr int ROWS = Sums::ROWS, TILE = WARPS * ROWS, STEP = Sums::STEP;
    constexpr int BYTES = Sums::WORDS * 4, ROW = BYTES * 4 * Sums::SLICES, STAGE = TILE * ROW;
    extern __shared__ __align__(128) unsigned char bytes[];
    __shared__ Stages<STAGES> stages;
    int steps = ceil_div(p.K, STEP), tiles = ceil_div(p.N, TILE), lane = lane_index();
    if (threadIdx.x == WARPS * 32) {
        prefetch_map(weight);
        stages.init(1, WARPS);
    }
    __syncthreads();
    if (threadIdx.x >= WARPS * 32) {
        if (lane > 0) return;
        if (!p.constant) wait_for_kernels();
        Turn<STAGES> turn;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
#pragma unroll 1
            for (int step = 0; step < steps; ++step, turn.next()) {
                stages.wait_empty(turn);
                Barrier& full = stages.full[turn.stage];
                full.arrive_expecting(STAGE);
                load_box(shared_address(bytes + turn.stage * STAGE), weight, full, step * (ROW / 4),
                         tile * TILE);
            }
        start_next_kernel();
        return;
    }
    wait_for_kernels();
    // Vectors of tokens by step and lane, and a sum for each column of B. What is outside is 0.
    constexpr int VECTORS = EIGHTS * UNITS;
    unsigned* of_tokens = reinterpret_cast<unsigned*>(bytes + STAGES * STAGE);
    float* of_sums = reinterpret_cast<float*>(of_tokens + steps * VECTORS * 32 * 4);
    int mine = Sums::slice(lane) * Sums::CHUNK + lane % 4 * Sums::LANE;  // k of the lane in a step
    for (int step = warp_index(); step < steps; step += WARPS)
#pragma unroll
        for (int eight = 0; eight < EIGHTS; ++eight) {
            float sum = 0;
#pragma unroll
            for (int u = 0; u < UNITS; ++u) {
                int m = eight * 8 + Sums::token(lane), k = step * STEP + mine + u * 8;
                auto from = fill<4>(0u);
                if (m < p.M && k < p.K)
                    from = load<4>(reinterpret_cast<const unsigned*>(x + m * p.x_row + k));
#pragma unroll
                for (int i = 0; i < 4; ++i) sum += unpack<T>(from[i], 0) + unpack<T>(from[i], 1);
                unsigned words[4];
                arrange<F>(words, &from[0]);
                int at = (step * VECTORS + eight * UNITS + u) * 32 + lane;
                store(of_tokens + at * 4,
                      Vector<unsigned, 4>{words[0], words[1], words[2], words[3]});
            }
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            if (lane % 4 == 0) of_sums[(step * EIGHTS + eight) * 8 + lane / 4] = sum;
        }
    barrier_sync<WARPS * 32>(1);
    const Dequantiser<F, T> weights{p.bits};
    Turn<STAGES> turn;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int first = tile * TILE + warp_index() * ROWS;
        Group<S> groups[EACH];
        auto read_scales = [&](int k) {
            int group = GROUPED ? group_of(min(k, p.K - 1), p) : 0;
#pragma unroll
            for (int r = 0; r < EACH; ++r)
                groups[r].read(scales, ZERO ? zeros : nullptr, p,
                               min(first + Sums::token(lane) + r * ACROSS, p.N - 1), group);
        };
        read_scales(mine);
        Sums all;
#pragma unroll 1
        for (int step = 0; step < steps; ++step, turn.next()) {
            typename Sums::Lane rows[EACH];
            typename Sums::Tokens tokens;
            const unsigned char* stage = bytes + turn.stage * STAGE + warp_index() * ROWS * ROW;
            stages.wait_full(turn);
#pragma unroll
            for (int r = 0; r < EACH; ++r)
                rows[r] = load<Sums::WORDS>(
                    reinterpret_cast<const unsigned*>(stage + (r * 32 + lane) * BYTES));
#pragma unroll
            for (int i = 0; i < VECTORS; ++i)
                tokens[i / UNITS][i % UNITS] =
                    load<4>(of_tokens + ((step * VECTORS + i) * 32 + lane) * 4);
            if constexpr (Sums::HAS_ONES)
#pragma unroll
                for (int i = 0; i < EIGHTS * 4; ++i)
                    all.ones[i / 4][i % 4] +=
                        of_sums[(step * EIGHTS + i / 4) * 8 + c_column(i % 4)];
            __syncwarp();  // all lanes have read their weights
            if (lane == 0) stages.empty[turn.stage].arrive();
            all.multiply(weights, rows, tokens);
            if constexpr (GROUPED) {
                all.flush(groups);
                read_scales((step + 1) * STEP + mine);
            }
        }
        if constexpr (!GROUPED) all.flush(groups);
        all.results(lane, [&](int m, int row, float value) {
            if (m < p.M && first + row < p.N) finish(y, bias, p, m, first + row, value);
        });
    }
}
