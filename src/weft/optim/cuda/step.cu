// A step of an optimiser for all tensors of a table in one launch.
#include "counts.cuh"
#include "rules.cuh"
#include "table.cuh"
#include "update.cuh"

// The lists of a table are those of Streams, then the step counts if there are any.
template <class P, class S, int STATES, bool MASTER>
__device__ Streams<P, S, STATES, MASTER> streams(const Table& table, const Chunk& chunk) {
    Streams<P, S, STATES, MASTER> at;
    at.p = table.at<P>(0, chunk.tensor) + chunk.begin;
    at.g = table.at<P>(1, chunk.tensor) + chunk.begin;
    for (int s = 0; s < STATES; s++) at.state[s] = table.at<S>(2 + s, chunk.tensor) + chunk.begin;
    if (MASTER) at.master = table.at<float>(2 + STATES, chunk.tensor) + chunk.begin;
    return at;
}

// Numbers in memory, so that a CUDA graph can change them: the learning rate is lr * *lr_at,
// gradients are multiplied by sign * *factor / *divisor, and nothing changes where *skip is not 0.
template <class P, class S, bool MASTER, bool DECOUPLED, bool LARGEST, int V, int U, int THREADS,
          int CHUNK>
__global__ void __launch_bounds__(THREADS)
    adam(const long long* words, int tensors, int lists, int* counter, float lr, const float* lr_at,
         double log_beta1, double log_beta2, float beta2, float rest1, float rest2, float eps,
         float decay, float sign, const float* factor, const float* divisor, const float* skip) {
    if (*skip != 0.0f) return;
    Table table{words, tensors, lists};
    Chunk chunk(table, blockIdx.x, CHUNK);
    float count = *table.at<float>(lists - 1, chunk.tensor) + 1.0f;
    Adam<DECOUPLED, LARGEST> rule(lr * *lr_at, count, log_beta1, log_beta2, beta2, rest1, rest2,
                                  eps, decay);
    auto at = streams<P, S, decltype(rule)::STATES, MASTER>(table, chunk);
    update<V, U, THREADS>(at, at, chunk.count, rule, sign * *factor / *divisor);
    count_step(table, counter);
}

template <class P, class S, bool MASTER, bool MOMENTUM, bool NESTEROV, int V, int U, int THREADS,
          int CHUNK>
__global__ void __launch_bounds__(THREADS)
    sgd(const long long* words, int tensors, int lists, float lr, const float* lr_at,
        float momentum, float rest, float decay, float sign, const float* factor,
        const float* divisor, const float* skip) {
    if (*skip != 0.0f) return;
    Table table{words, tensors, lists};
    Sgd<MOMENTUM, NESTEROV> rule{lr * *lr_at, momentum, rest, decay};
    Chunk chunk(table, blockIdx.x, CHUNK);
    auto at = streams<P, S, decltype(rule)::STATES, MASTER>(table, chunk);
    update<V, U, THREADS>(at, at, chunk.count, rule, sign * *factor / *divisor);
}
