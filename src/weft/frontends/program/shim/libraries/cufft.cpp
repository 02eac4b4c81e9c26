// cuFFT: plans keep their layout; NumPy computes the transforms (libraries/fft.py). The extended
// interface (cufftXt) is that of one GPU.
#include "library.h"

#include <cufftXt.h>

using namespace weft;

namespace {
struct FftPlan {
    Numbers n, in_embed, out_embed;  // no embedding: dense, or padded in place
    int64_t in_stride = 1, in_distance = 0, out_stride = 1, out_distance = 0, batch = 1;
    int type = 0;
    bool half = false;  // elements of 16 bits, with the type of floats
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
cufftResult set_shape(cufftHandle handle, Numbers n, cufftType type, int64_t batch,
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
// The layout of elements inside of larger arrays; without both of these, strides are ignored.
template <class Size>
cufftResult set_layout(cufftHandle handle, int rank, const Size *in_embed, Size in_stride,
                       Size in_distance, const Size *out_embed, Size out_stride,
                       Size out_distance) {
    auto *plan = known_plan(handle);
    if (!in_embed || !out_embed) return CUFFT_SUCCESS;
    plan->in_embed.assign(in_embed, in_embed + rank);
    plan->out_embed.assign(out_embed, out_embed + rank);
    plan->in_stride = in_stride, plan->in_distance = in_distance;
    plan->out_stride = out_stride, plan->out_distance = out_distance;
    return CUFFT_SUCCESS;
}
cufftResult execute_plan(cufftHandle handle, int type, const void *in, void *out, int direction) {
    auto *plan = known_plan(handle);
    if (!plan || plan->n.empty()) return CUFFT_INVALID_PLAN;
    if (plan->type != type) return CUFFT_INVALID_TYPE;
    Numbers numbers = {int64_t(in), int64_t(out), type, direction, plan->batch,
                                    plan->in_stride, plan->in_distance, plan->out_stride,
                                    plan->out_distance, plan->half};
    for (auto *sizes : {&plan->n, &plan->in_embed, &plan->out_embed}) {
        numbers.push_back(int64_t(sizes->size()));
        numbers.insert(numbers.end(), sizes->begin(), sizes->end());
    }
    return numpy_call(plan->stream, "fft", numbers, CUFFT_EXEC_FAILED);
}
}  // namespace

API cufftResult cufftCreate(cufftHandle *out) {
    std::lock_guard<std::mutex> guard(fft_mutex);
    fft_plans[*out = ++fft_made] = {};
    return CUFFT_SUCCESS;
}
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
    return set_layout(handle, rank, inembed, istride, idist, onembed, ostride, odist);
}
API cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) {
    cufftCreate(plan);
    return cufftMakePlan1d(*plan, nx, type, batch, nullptr);
}
API cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
    cufftCreate(plan);
    return cufftMakePlan2d(*plan, nx, ny, type, nullptr);
}
API cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type) {
    cufftCreate(plan);
    return cufftMakePlan3d(*plan, nx, ny, nz, type, nullptr);
}
API cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed, int istride,
                              int idist, int *onembed, int ostride, int odist, cufftType type,
                              int batch) {
    cufftCreate(plan);
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
API cufftResult cufftGetSize(cufftHandle, size_t *bytes) { return set(*bytes, 0); }
API cufftResult cufftEstimate1d(int, cufftType, int, size_t *bytes) { return set(*bytes, 0); }
API cufftResult cufftGetVersion(int *version) { return set(*version, 12000); }
// ---- the extended interface ---------------------------------------------------------------------

namespace {
// A type of transform by the types of its elements; 0 for none.
struct FftKind {
    cudaDataType in, out;
    cufftType type;
};
const FftKind fft_kinds[] = {
    {CUDA_R_32F, CUDA_C_32F, CUFFT_R2C}, {CUDA_C_32F, CUDA_R_32F, CUFFT_C2R},
    {CUDA_C_32F, CUDA_C_32F, CUFFT_C2C}, {CUDA_R_64F, CUDA_C_64F, CUFFT_D2Z},
    {CUDA_C_64F, CUDA_R_64F, CUFFT_Z2D}, {CUDA_C_64F, CUDA_C_64F, CUFFT_Z2Z},
    {CUDA_R_16F, CUDA_C_16F, CUFFT_R2C}, {CUDA_C_16F, CUDA_R_16F, CUFFT_C2R},
    {CUDA_C_16F, CUDA_C_16F, CUFFT_C2C},
};

// Room for the transform in place: rows of reals have room for the complex numbers.
size_t room_of(const FftPlan &plan) {
    bool whole = plan.type == CUFFT_C2C || plan.type == CUFFT_Z2Z;
    bool wide = plan.type == CUFFT_D2Z || plan.type == CUFFT_Z2D || plan.type == CUFFT_Z2Z;
    size_t count = plan.batch;
    for (size_t i = 0; i + 1 < plan.n.size(); i++) count *= plan.n[i];
    count *= whole ? plan.n.back() : plan.n.back() / 2 + 1;
    return count * 2 * (wide ? 8 : plan.half ? 2 : 4);
}
void *only_part(cudaLibXtDesc *memory) { return memory->descriptor->data[0]; }
}  // namespace

API cufftResult cufftXtSetGPUs(cufftHandle handle, int count, int *gpus) {
    if (!known_plan(handle)) return CUFFT_INVALID_PLAN;
    if (!gpus || count < 1) return CUFFT_INVALID_VALUE;
    if (count == 1) return CUFFT_SUCCESS;
    say("cufftXtSetGPUs: a transform on several GPUs is not simulated");
    return CUFFT_NOT_SUPPORTED;
}
API cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long *n, long long *inembed,
                                    long long istride, long long idist, cudaDataType in,
                                    long long *onembed, long long ostride, long long odist,
                                    cudaDataType out, long long batch, size_t *bytes,
                                    cudaDataType) {
    if (rank < 1 || rank > 3 || !n) return CUFFT_INVALID_VALUE;
    for (auto &kind : fft_kinds) {
        if (kind.in != in || kind.out != out) continue;
        if (auto error = set_shape(handle, {n, n + rank}, kind.type, batch, bytes)) return error;
        known_plan(handle)->half = in == CUDA_R_16F || in == CUDA_C_16F;
        return set_layout(handle, rank, inembed, istride, idist, onembed, ostride, odist);
    }
    say("cufftXtMakePlanMany: there is no transform of these types");
    return CUFFT_NOT_SUPPORTED;
}
API cufftResult cufftXtGetSizeMany(cufftHandle, int, long long *, long long *, long long, long long,
                                   cudaDataType, long long *, long long, long long, cudaDataType,
                                   long long, size_t *bytes, cudaDataType) {
    return set(*bytes, 0);
}
API cufftResult cufftXtSetWorkArea(cufftHandle, void **) { return CUFFT_SUCCESS; }
API cufftResult cufftXtSetWorkAreaPolicy(cufftHandle, cufftXtWorkAreaPolicy, size_t *) {
    return CUFFT_SUCCESS;
}
API cufftResult cufftXtExec(cufftHandle handle, void *in, void *out, int direction) {
    auto *plan = known_plan(handle);
    return plan ? execute_plan(handle, plan->type, in, out, direction) : CUFFT_INVALID_PLAN;
}

// Memory of a plan: one piece, since there is one GPU.
API cufftResult cufftXtMalloc(cufftHandle handle, cudaLibXtDesc **out, cufftXtSubFormat format) {
    auto *plan = known_plan(handle);
    if (!plan || plan->n.empty()) return CUFFT_INVALID_PLAN;
    auto *memory = new cudaLibXtDesc{};
    auto *pieces = memory->descriptor = new cudaXtDesc{};
    pieces->nGPUs = 1, pieces->GPUs[0] = current_device(), pieces->size[0] = room_of(*plan);
    memory->library = LIB_FORMAT_CUFFT, memory->subFormat = format;
    *out = memory;
    return cudaMalloc(&pieces->data[0], pieces->size[0]) ? CUFFT_ALLOC_FAILED : CUFFT_SUCCESS;
}
API cufftResult cufftXtFree(cudaLibXtDesc *memory) {
    if (!memory) return CUFFT_SUCCESS;
    auto error = cudaFree(only_part(memory));
    delete memory->descriptor;
    delete memory;
    return error ? CUFFT_INVALID_VALUE : CUFFT_SUCCESS;
}
API cufftResult cufftXtMemcpy(cufftHandle handle, void *to, void *from, cufftXtCopyType type) {
    if (!known_plan(handle)) return CUFFT_INVALID_PLAN;
    if (type < CUFFT_COPY_HOST_TO_DEVICE || type > CUFFT_COPY_DEVICE_TO_DEVICE)
        return CUFFT_INVALID_VALUE;
    bool to_host = type == CUFFT_COPY_DEVICE_TO_HOST, from_host = type == CUFFT_COPY_HOST_TO_DEVICE;
    auto *source = static_cast<cudaLibXtDesc *>(from), *target = static_cast<cudaLibXtDesc *>(to);
    size_t bytes = (from_host ? target : source)->descriptor->size[0];
    auto error = cudaMemcpy(to_host ? to : only_part(target), from_host ? from : only_part(source),
                            bytes, cudaMemcpyDefault);
    return error ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}
API cufftResult cufftXtExecDescriptor(cufftHandle plan, cudaLibXtDesc *in, cudaLibXtDesc *out,
                                      int direction) {
    return cufftXtExec(plan, only_part(in), only_part(out), direction);
}

// ---- transforms of one type ---------------------------------------------------------------------

#define FFT_BOTH_WAYS(NAME, IN, OUT)                                                               \
    API cufftResult cufftExec##NAME(cufftHandle plan, IN *in, OUT *out, int direction) {           \
        return execute_plan(plan, CUFFT_##NAME, in, out, direction);                               \
    }                                                                                              \
    API cufftResult cufftXtExecDescriptor##NAME(cufftHandle plan, cudaLibXtDesc *in,               \
                                                cudaLibXtDesc *out, int direction) {               \
        return execute_plan(plan, CUFFT_##NAME, only_part(in), only_part(out), direction);         \
    }
#define FFT_ONE_WAY(NAME, IN, OUT, DIRECTION)                                                      \
    API cufftResult cufftExec##NAME(cufftHandle plan, IN *in, OUT *out) {                          \
        return execute_plan(plan, CUFFT_##NAME, in, out, DIRECTION);                               \
    }                                                                                              \
    API cufftResult cufftXtExecDescriptor##NAME(cufftHandle plan, cudaLibXtDesc *in,               \
                                                cudaLibXtDesc *out) {                              \
        return execute_plan(plan, CUFFT_##NAME, only_part(in), only_part(out), DIRECTION);         \
    }
FFT_BOTH_WAYS(C2C, cufftComplex, cufftComplex)
FFT_BOTH_WAYS(Z2Z, cufftDoubleComplex, cufftDoubleComplex)
FFT_ONE_WAY(R2C, cufftReal, cufftComplex, CUFFT_FORWARD)
FFT_ONE_WAY(D2Z, cufftDoubleReal, cufftDoubleComplex, CUFFT_FORWARD)
FFT_ONE_WAY(C2R, cufftComplex, cufftReal, CUFFT_INVERSE)
FFT_ONE_WAY(Z2D, cufftDoubleComplex, cufftDoubleReal, CUFFT_INVERSE)
