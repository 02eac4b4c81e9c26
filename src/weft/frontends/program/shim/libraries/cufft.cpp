// cuFFT: fft_plans keep their layout; NumPy computes the transforms (libraries/fft.py). The extended
// interface (cufftXt) is that of one GPU.
#include "../standard.h"
#include "../weft.h"

#include <cufftXt.h>

using namespace weft;

namespace {
struct FftPlan {
    std::vector<int64_t> n, in_embed, out_embed;  // no embedding: dense, or padded in place
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
                                    plan->out_distance, plan->half};
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
        auto *plan = known_plan(handle);
        plan->half = in == CUDA_R_16F || in == CUDA_C_16F;
        if (!inembed || !onembed) return CUFFT_SUCCESS;
        plan->in_embed.assign(inembed, inembed + rank);
        plan->out_embed.assign(onembed, onembed + rank);
        plan->in_stride = istride, plan->in_distance = idist;
        plan->out_stride = ostride, plan->out_distance = odist;
        return CUFFT_SUCCESS;
    }
    say("cufftXtMakePlanMany: there is no transform of these types");
    return CUFFT_NOT_SUPPORTED;
}
API cufftResult cufftXtGetSizeMany(cufftHandle, int, long long *, long long *, long long, long long,
                                   cudaDataType, long long *, long long, long long, cudaDataType,
                                   long long, size_t *bytes, cudaDataType) {
    *bytes = 0;
    return CUFFT_SUCCESS;
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
#define FFT_DESCRIPTOR(NAME)                                                                      \
    API cufftResult cufftXtExecDescriptor##NAME(cufftHandle plan, cudaLibXtDesc *in,              \
                                                cudaLibXtDesc *out, int direction) {              \
        return execute_plan(plan, CUFFT_##NAME, only_part(in), only_part(out), direction);        \
    }
#define FFT_ONE_WAY(NAME, DIRECTION)                                                              \
    API cufftResult cufftXtExecDescriptor##NAME(cufftHandle plan, cudaLibXtDesc *in,              \
                                                cudaLibXtDesc *out) {                             \
        return execute_plan(plan, CUFFT_##NAME, only_part(in), only_part(out), DIRECTION);        \
    }
FFT_DESCRIPTOR(C2C)
FFT_DESCRIPTOR(Z2Z)
FFT_ONE_WAY(R2C, CUFFT_FORWARD)
FFT_ONE_WAY(D2Z, CUFFT_FORWARD)
FFT_ONE_WAY(C2R, CUFFT_INVERSE)
FFT_ONE_WAY(Z2D, CUFFT_INVERSE)
