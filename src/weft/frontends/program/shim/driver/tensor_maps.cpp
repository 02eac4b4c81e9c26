// Tensor maps for cp.async.bulk.tensor; Python checks and encodes them.
#include "../weft.h"

#include <cstring>
#include <cuda.h>
#include <vector>

namespace {

struct Request {
    std::vector<int64_t> numbers;

    Request(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
            CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
            CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
        : numbers{int64_t(map),  int64_t(type),    int64_t(rank), int64_t(address),
                  int64_t(interleave), int64_t(swizzle), int64_t(l2),   int64_t(fill)} {}

    // `count` numbers of an array of the program.
    template <class T>
    Request &list(const T *values, unsigned count) {
        for (unsigned i = 0; i < count; i++) numbers.push_back(int64_t(values[i]));
        return *this;
    }

    CUresult made(const char *name) const {
        return CUresult(ops.compute(name, numbers.data(), int(numbers.size())));
    }
};

// The driver reads no arrays of a map that has no dimensions, or too many.
bool readable(const void *map, cuuint32_t rank, unsigned least) {
    return map && rank >= least && rank <= 5;
}

}  // namespace

API CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                    void *address, const cuuint64_t *dims,
                                    const cuuint64_t *strides, const cuuint32_t *box,
                                    const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                    CUtensorMapFloatOOBfill fill) {
    if (!readable(map, rank, 1) || !dims || !box || !steps || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    Request request(map, type, rank, address, interleave, swizzle, l2, fill);
    request.list(dims, rank).list(strides, rank - 1).list(steps, rank).list(box, rank);
    return request.made("tensor_map");
}

API CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *dims,
                                     const cuuint64_t *strides, const int *lower, const int *upper,
                                     cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                     CUtensorMapFloatOOBfill fill) {
    if (!readable(map, rank, 3) || !dims || !strides || !lower || !upper || !steps)
        return CUDA_ERROR_INVALID_VALUE;
    Request request(map, type, rank, address, interleave, swizzle, l2, fill);
    request.list(dims, rank).list(strides, rank - 1).list(steps, rank);
    request.list(lower, rank - 2).list(upper, rank - 2);
    const cuuint32_t sizes[] = {channels, pixels};
    request.list(sizes, 2);
    return request.made("im2col_map");
}

API CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
    if (!map || uintptr_t(address) % 16) return CUDA_ERROR_INVALID_VALUE;
    memcpy(map, &address, sizeof address);
    return CUDA_SUCCESS;
}
