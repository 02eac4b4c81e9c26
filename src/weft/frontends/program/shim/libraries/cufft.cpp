// cuFFT: fft_plans keep their layout; NumPy computes the transforms (libraries/fft.py).
#include "../standard.h"
#include "../weft.h"

#include <cufft.h>

using namespace weft;

namespace {
struct FftPlan {
    std::vector<int64_t> n, in_embed, out_embed;  // no embedding: dense, or padded in place
    int64_t in_stride = 1, in_distance = 0, out_stride = 1, out_distance = 0, batch = 1;
    int type = 0;
    cudaStream_t stream = nullptr;
};
std::mutex fft_mutex;
std::map<cufftHandle, FftPlan> fft_plans;
int fft_made = 0;

FftPlan *known_plan(cufftHandle handle) {
    std::lock_guard<std::mutex> guard(fft_mutex);
    auto found = fft_plans.find(handle);
    return found == fft_plans.end() ? nullptr : &found->second;
}
cufftResult create_plan(cufftHandle *out) {
    std::lock_guard<std::mutex> guard(fft_mutex);
    fft_plans[*out = ++fft_made] = {};
    return CUFFT_SUCCESS;
}
cufftResult set_shape(cufftHandle handle, std::vector<int64_t> n, cufftType type, int64_t batch,
                  size_t *bytes) {
    auto *plan = known_plan(handle);
    if (!plan) return CUFFT_INVALID_PLAN;
    for (auto size : n)
        if (size < 1) return CUFFT_INVALID_SIZE;
    if (batch < 1) return CUFFT_INVALID_SIZE;
    plan->n = n, plan->type = type, plan->batch = batch;
    if (bytes) *bytes = 0;
    return CUFFT_SUCCESS;
}
cufftResult execute_plan(cufftHandle handle, int type, const void *in, void *out, int direction) {
    auto *plan = known_plan(handle);
    if (!plan || plan->n.empty()) return CUFFT_INVALID_PLAN;
    if (plan->type != type) return CUFFT_INVALID_TYPE;
    if (broken()) return CUFFT_EXEC_FAILED;
    std::vector<int64_t> numbers = {int64_t(in), int64_t(out), type, direction, plan->batch,
                                    plan->in_stride, plan->in_distance, plan->out_stride,
                                    plan->out_distance, int64_t(plan->n.size())};
    for (auto *sizes : {&plan->n, &plan->in_embed, &plan->out_embed}) {
        numbers.push_back(int64_t(sizes->size()));
        numbers.insert(numbers.end(), sizes->begin(), sizes->end());
    }
    auto status = std::make_shared<int>(0);
    auto error = submit(plan->stream, cudaGraphNodeTypeKernel, [numbers, status] {
        *status = ops.compute("fft", numbers.data(), int(numbers.size()));
        return cudaSuccess;
    }, true);
    return error ? CUFFT_EXEC_FAILED : static_cast<cufftResult>(*status);
}
}  // namespace

API cufftResult cufftCreate(cufftHandle *out) { return create_plan(out); }
API cufftResult cufftDestroy(cufftHandle handle) {
    std::lock_guard<std::mutex> guard(fft_mutex);
    return fft_plans.erase(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
API cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch,
                                size_t *bytes) {
    return set_shape(plan, {nx}, type, batch, bytes);
}
API cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t *bytes) {
    return set_shape(plan, {nx, ny}, type, 1, bytes);
}
API cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type,
                                size_t *bytes) {
    return set_shape(plan, {nx, ny, nz}, type, 1, bytes);
}
API cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *inembed, int istride,
                                  int idist, int *onembed, int ostride, int odist, cufftType type,
                                  int batch, size_t *bytes) {
    if (rank < 1 || rank > 3) return CUFFT_INVALID_VALUE;
    if (auto error = set_shape(handle, {n, n + rank}, type, batch, bytes)) return error;
    if (!inembed || !onembed) return CUFFT_SUCCESS;  // strides and distances are then ignored
    auto *plan = known_plan(handle);
    plan->in_embed.assign(inembed, inembed + rank), plan->out_embed.assign(onembed, onembed + rank);
    plan->in_stride = istride, plan->in_distance = idist;
    plan->out_stride = ostride, plan->out_distance = odist;
    return CUFFT_SUCCESS;
}
API cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) {
    create_plan(plan);
    return cufftMakePlan1d(*plan, nx, type, batch, nullptr);
}
API cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
    create_plan(plan);
    return cufftMakePlan2d(*plan, nx, ny, type, nullptr);
}
API cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type) {
    create_plan(plan);
    return cufftMakePlan3d(*plan, nx, ny, nz, type, nullptr);
}
API cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride,
                              int idist, int *onembed, int ostride, int odist, cufftType type,
                              int batch) {
    create_plan(plan);
    return cufftMakePlanMany(*plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type,
                             batch, nullptr);
}
API cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    auto *plan = known_plan(handle);
    if (!plan) return CUFFT_INVALID_PLAN;
    plan->stream = stream;
    return CUFFT_SUCCESS;
}
API cufftResult cufftSetAutoAllocation(cufftHandle, int) { return CUFFT_SUCCESS; }
API cufftResult cufftSetWorkArea(cufftHandle, void *) { return CUFFT_SUCCESS; }
API cufftResult cufftGetSize(cufftHandle, size_t *bytes) {
    *bytes = 0;
    return CUFFT_SUCCESS;
}
API cufftResult cufftEstimate1d(int, cufftType, int, size_t *bytes) {
    *bytes = 0;
    return CUFFT_SUCCESS;
}
API cufftResult cufftGetVersion(int *version) {
    *version = 12000;
    return CUFFT_SUCCESS;
}
API cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction) {
    return execute_plan(plan, CUFFT_C2C, in, out, direction);
}
API cufftResult cufftExecR2C(cufftHandle plan, cufftReal *in, cufftComplex *out) {
    return execute_plan(plan, CUFFT_R2C, in, out, CUFFT_FORWARD);
}
API cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *in, cufftReal *out) {
    return execute_plan(plan, CUFFT_C2R, in, out, CUFFT_INVERSE);
}
API cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out,
                             int direction) {
    return execute_plan(plan, CUFFT_Z2Z, in, out, direction);
}
API cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out) {
    return execute_plan(plan, CUFFT_D2Z, in, out, CUFFT_FORWARD);
}
API cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out) {
    return execute_plan(plan, CUFFT_Z2D, in, out, CUFFT_INVERSE);
}
