// A step of an optimiser for all tensors of a table in one launch.
#include "counts.cuh"
#include "rules.cuh"
#include "update.cuh"

// Numbers in memory, so that a CUDA graph can change them: the learning rate is lr * *lr_at, gradients are multiplied by
// sign * *factor / *divisor, and nothing changes where *skip is not 0.
template <class P, class S, bool MASTER, bool DECOUPLED, bool LARGEST, int V, int U, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS) adam(const long long* words, int tensors, int lists, int* counter, float lr,
                                                const float* lr_at, double log_beta1, double log_beta2, float beta2,
                                                float rest1, float rest2, float eps, float decay, float sign,
                                                const float* factor, const float* divisor, const float* skip) {
    if (*skip != 0.0f) return;
    Table table{words, tensors, lists};
    Chunk chunk(table, blockIdx.x, CHUNK);
    float count = *table.at<float>(lists - 1, chunk.tensor) + 1.0f;
    Adam<DECOUPLED, LARGEST> rule(lr * *lr_at, count, log_beta1, log_beta2, beta2, rest1, rest2, eps, decay);
    update<P, S, MASTER, V, U, THREADS>(table, chunk, rule, sign * *factor / *divisor);
    count_step(table, counter);
}

template <class P, class S, bool MASTER, bool MOMENTUM, bool NESTEROV, int V, int U, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS) sgd(const long long* words, int tensors, int lists, float lr,
                                               const float* lr_at, float momentum, float rest, float decay, float sign,
                                               const float* factor, const float* divisor, const float* skip) {
    if (*skip != 0.0f) return;
    Table table{words, tensors, lists};
    Sgd<MOMENTUM, NESTEROV> rule{lr * *lr_at, momentum, rest, decay};
    update<P, S, MASTER, V, U, THREADS>(table, Chunk(table, blockIdx.x, CHUNK), rule, sign * *factor / *divisor);
}
