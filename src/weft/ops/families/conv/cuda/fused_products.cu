// Convolutions of one tap as matrix products on Hopper whose results epilogue.cuh completes: see
// matmul/cuda/pipelined.cu.
#include "../../matmul/cuda/multiply_tiles.cuh"
#include "epilogue.cuh"

// The epilogue of a warp's part of a tile: channels are the columns of C, or its rows if it is
// TRANSPOSED. Lanes have the numbers of some columns, and give them to each other.
template <class Epilogue, bool TRANSPOSED, int COLUMNS>
struct TileEpilogue {
    static constexpr int OF_LANE = TRANSPOSED ? 1 : ceil_div(COLUMNS, 32);
    using Channel = typename Epilogue::Channel;

    Epilogue epilogue;
    Channel of_columns[OF_LANE], of_rows[2];

    template <class T>
    __device__ void fetch(const Epilogue& given, T*, const Problem& p, int r0, int c0) {
        epilogue = given;
#pragma unroll
        for (int i = 0; i < 2 && TRANSPOSED; ++i)
            of_rows[i] = epilogue.channel(r0 + c_row(i * 2), p.M);
#pragma unroll
        for (int i = 0; i < OF_LANE && !TRANSPOSED; ++i)
            of_columns[i] = epilogue.channel(c0 + i * 32 + lane_index(), p.N);
    }
    __device__ void share() {}
    __device__ void add(float (&value)[4], const Problem&, int, int, int offset) const {
        if constexpr (TRANSPOSED) {
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] = of_rows[i / 2](value[i]);
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                Channel mine = of_columns[offset / 32];
                int lane = offset % 32 + c_column(j);
                mine = {shuffle(mine.factor, lane), shuffle(mine.add, lane)};
                value[j] = mine(value[j]), value[j + 2] = mine(value[j + 2]);
            }
        }
    }
    template <class T, int N>
    __device__ Vector<T, N> stored(const T* at, const Vector<T, N>& v) const {
        return epilogue.stored(at, v);
    }
};

// See Results of multiply_tiles.cuh.
template <class T_, class Statistic, class Parameter, bool TRANSPOSED_>
struct FusedResults {
    using T = T_;
    static constexpr bool TRANSPOSED = TRANSPOSED_, WHOLE = true;
    static constexpr int ACTIVATION = 0, BIAS = TRANSPOSED ? ROW_BIAS : COLUMN_BIAS;
    using Given = FusedEpilogue<T, Statistic, Parameter>;
    static __device__ const Given& of_batch(const Given& epilogue, int, const Problem&) {
        return epilogue;
    }
    template <int COLUMNS>
    using Tile = TileEpilogue<Given, TRANSPOSED, COLUMNS>;
};

template <class S, class R, bool A_KMAJOR, bool B_KMAJOR>
__device__ void multiply(const OperandMaps& A, const OperandMaps& B,
                         const typename R::Given& epilogue, typename R::T* C, const Problem& p) {
    TensorSums<typename R::T, S, A_KMAJOR, B_KMAJOR> sums;
    multiply_tiles<S, R>(A, B, A.whole, epilogue, C, p, sums);
}

template <class T, class Statistic, class Parameter, int BM, int BN, int STAGES, int SPLITS,
          bool A_KMAJOR, bool B_KMAJOR, bool TRANSPOSED>
__global__ void __launch_bounds__(BM * 2 + 128, 1)
    pipelined(MAPS, FUSED, T* C, const __grid_constant__ Problem p) {
    multiply<Schedule<BM, BN, STAGES, 1, SPLITS>, FusedResults<T, Statistic, Parameter, TRANSPOSED>,
             A_KMAJOR, B_KMAJOR>(OF_MAPS, OF_FUSED(C), C, p);
}

template <class T, class Statistic, class Parameter, int BM, int BN, int STAGES, int SPLITS,
          bool A_KMAJOR, bool B_KMAJOR, bool TRANSPOSED>
__global__ void __launch_bounds__(384, 1)
    pipelined_in_turns(MAPS, FUSED, T* C, const __grid_constant__ Problem p) {
    multiply<Schedule<BM, BN, STAGES, 1, SPLITS, true>,
             FusedResults<T, Statistic, Parameter, TRANSPOSED>, A_KMAJOR, B_KMAJOR>(
        OF_MAPS, OF_FUSED(C), C, p);
}

template <class T, class Statistic, class Parameter, int BM, int BN, int STAGES, int RESIDENT,
          int SPLITS, bool A_KMAJOR, bool B_KMAJOR, bool TRANSPOSED>
__global__ void __maxnreg__((Registers<BM / 16 + 1, RESIDENT>::LAUNCH))
    pipelined_beside(MAPS, FUSED, T* C, const __grid_constant__ Problem p) {
    multiply<Schedule<BM, BN, STAGES, RESIDENT, SPLITS>,
             FusedResults<T, Statistic, Parameter, TRANSPOSED>, A_KMAJOR, B_KMAJOR>(
        OF_MAPS, OF_FUSED(C), C, p);
}
