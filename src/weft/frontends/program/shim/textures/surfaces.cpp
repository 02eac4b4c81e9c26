// Loads, stores and reductions on surfaces.
#include "request.h"

#include <algorithm>

namespace weft {
namespace {
template <class T>
T reduced(Reduction op, T a, T b) {
    switch (op) {
        case Reduction::add: return T(a + b);
        case Reduction::min: return std::min(a, b);
        case Reduction::max: return std::max(a, b);
        case Reduction::bit_and: return T(a & b);
        default: return T(a | b);
    }
}

// Blocks run at the same time, so a reduction is one step.
template <class T>
void reduce_at(char *at, Reduction op, int64_t value) {
    T *word = reinterpret_cast<T *>(at);
    T old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &old, reduced(op, old, T(value)), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
void reduce_word(char *at, Type type, Reduction op, int64_t value) {
    switch (type) {
        case Type::s32: return reduce_at<int32_t>(at, op, value);
        case Type::s64: return reduce_at<int64_t>(at, op, value);
        case Type::u64: return reduce_at<uint64_t>(at, op, value);
        default: return reduce_at<uint32_t>(at, op, value);
    }
}

// The place of an access; null outside the surface.
char *place(const Object &o, const Request &request, const Coordinates &at, int64_t bytes) {
    auto &level = o.levels[0];
    static const int dimensions[] = {1, 2, 3, 1, 2};
    int64_t step = int64_t(o.format.bytes()), width = level.width * step;
    int64_t x = at.integer[0], y = 0, z = request.layered() ? at.layer : 0;
    if (dimensions[request.geometry] > 1) y = at.integer[1];
    if (dimensions[request.geometry] > 2) z = at.integer[2];
    if (Outside(request.more) == Outside::clamp) {
        x = std::clamp<int64_t>(x, 0, width - step) / step * step;
        y = std::clamp<int64_t>(y, 0, level.height - 1);
        z = std::clamp<int64_t>(z, 0, level.depth - 1);
    }
    bool inside = x >= 0 && x + bytes <= width && y >= 0 && y < level.height && z >= 0 &&
                  z < level.depth;
    return inside ? level.data + z * level.plane + y * level.pitch + x : nullptr;
}
}  // namespace

int access_bytes(const Request &request) {
    static const int sizes[] = {4, 4, 4, 1, 2, 4, 8, 8, 8};
    bool one = Operation(request.operation) == Operation::reduce;
    return sizes[request.type] * (one ? 1 : request.function);
}

bool access(const Object &o, const Request &request, const Coordinates &at, int64_t *values,
            int stride) {
    static const int coordinates[] = {1, 2, 3, 2, 3};
    auto operation = Operation(request.operation);
    auto type = Type(request.type);
    int count = operation == Operation::reduce ? 1 : request.function;
    int bytes = access_bytes(request), size = bytes / count;
    if (at.integer[0] % bytes) return false;
    char *memory = place(o, request, at, bytes);
    int64_t *data = values + stride * (1 + coordinates[request.geometry]);
    if (operation == Operation::load) {
        for (int i = 0; i < count; i++) {
            values[stride * i] = 0;
            if (memory) memcpy(&values[stride * i], memory + i * size, size);
        }
    } else if (memory && operation == Operation::store) {
        for (int i = 0; i < count; i++) memcpy(memory + i * size, &data[stride * i], size);
    } else if (memory) {
        reduce_word(memory, type, Reduction(request.function), *data);
    }
    return memory || Outside(request.more) != Outside::trap;
}

}  // namespace weft
