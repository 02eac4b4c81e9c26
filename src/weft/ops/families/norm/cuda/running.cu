// Running statistics of batch norm.
#include <weft/convert.cuh>
#include <weft/early_launch.cuh>

using namespace weft;

// They move towards those of a batch of `size` elements of a channel, by `momentum`
// of the way; of the variance it is the unbiased one that they move to.
template <class R>
__global__ void __launch_bounds__(256)
    update(R* running_mean, R* running_var, const float* mean, const float* var, float momentum,
           float size, int channels) {
    take_turn();
    int c = blockIdx.x * 256 + threadIdx.x;
    if (c >= channels) return;
    auto move = [=](R& running, float to_here) {
        running = to<R>((1 - momentum) * to<float>(running) + momentum * to_here);
    };
    if (running_mean) move(running_mean[c], mean[c]);
    if (running_var) move(running_var[c], var[c] * size / (size - 1));
}
