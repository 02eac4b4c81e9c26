// A ring of stages in shared memory, between threads that fill them and threads that consume them.
//
//     __shared__ weft::Stages<4> stages;
//     if (threadIdx.x == 0) stages.init(1, 8);  // one thread fills, and 8 warps consume
//     __syncthreads();
//     weft::Turn<4> turn;                       // each thread has its own
//     for (int step = 0; step < steps; ++step, turn.next())
//         if (fills) {
//             stages.wait_empty(turn);
//             stages.full[turn.stage].arrive_expecting(BYTES);
//             weft::load_box(ring + turn.stage * BYTES, x, stages.full[turn.stage], step * 64,
//             row);
//         } else {
//             stages.wait_full(turn);
//             ...                               // the stage is there
//             if (weft::lane_index() == 0) stages.empty[turn.stage].arrive();
//         }
#pragma once
#include "tma.cuh"

namespace weft {

// The stage that a thread is at, and the parity of its phase.
template <int STAGES>
struct Turn {
    int stage = 0, parity = 0;

    __device__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    // Goes on by so many stages.
    __device__ void skip(int stages) {
        stage += stages;
        parity ^= stage / STAGES & 1;
        stage %= STAGES;
    }
    // Returns the stage before this one.
    __device__ int before() const { return (stage ? stage : STAGES) - 1; }
};

// The barriers of a ring; a variable in shared memory.
template <int STAGES>
struct Stages {
    Barrier full[STAGES], empty[STAGES];

    // Expects so many arrivals at each stage from those that fill it and from those that consume
    // it. One thread calls it, before a barrier of the block or of the cluster.
    __device__ void init(int fillers, int consumers) {
        for (int i = 0; i < STAGES; ++i) full[i].init(fillers), empty[i].init(consumers);
        publish_barriers();
    }
    // Waits until the stage is filled.
    __device__ void wait_full(const Turn<STAGES>& turn) { full[turn.stage].wait(turn.parity); }
    // Waits until the stage has been consumed; at first it counts as consumed.
    __device__ void wait_empty(const Turn<STAGES>& turn) {
        empty[turn.stage].wait(turn.parity ^ 1);
    }
};

}  // namespace weft
