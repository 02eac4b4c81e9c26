// Code that all libraries share: NumPy computes their calls; the status of success is always 0.
#pragma once

#include <library_types.h>

#include "../standard.h"
#include "../weft.h"

namespace weft {

using Numbers = std::vector<int64_t>;

// Has NumPy compute a call in the stream's order; `data` lives until then.
template <class Status>
Status numpy_call(cudaStream_t stream, const char *name, Numbers numbers, Status failure,
                  std::shared_ptr<void> data = nullptr) {
    if (broken()) return failure;
    auto status = std::make_shared<int>(0);
    auto error = submit(stream, cudaGraphNodeTypeKernel, [=, keep = std::move(data)] {
        *status = ops.compute(name, numbers.data(), int(numbers.size()));
        return cudaSuccess;
    }, true);
    return error ? failure : static_cast<Status>(*status);
}

inline void append(Numbers *to, int64_t number) { to->push_back(number); }
inline void append(Numbers *to, const void *address) { to->push_back(int64_t(address)); }
template <class... Parts>
Numbers numbers_of(Parts... parts) {
    Numbers out;
    (append(&out, parts), ...);
    return out;
}

// The success of any library.
struct Success {
    template <class Status>
    operator Status() const {
        return static_cast<Status>(0);
    }
};
template <class To, class From>
Success set(To &to, From from) {
    to = static_cast<To>(from);
    return {};
}
template <class T>
Success destroy(T *object) {
    delete object;
    return {};
}

// The cudaDataType of the elements at an address.
constexpr int64_t type_at(const float *) { return CUDA_R_32F; }
constexpr int64_t type_at(const double *) { return CUDA_R_64F; }

}  // namespace weft
