// The data of a meeting: copies and reductions, in the order of the ranks.
#include "clique.h"
#include "reduce.h"

namespace weft {

namespace {
// 16-bit floats are premultiplied and reduced as f32.
template <class T, class Read, class Write>
void reduce_as(const Meeting &m, size_t count, void *to, Read read, Write write) {
    int op = m.parts[0].call.op;
    auto value = [&](const Part &part, size_t i) {
        T out = read(part.from, i);
        return op == PREMULTIPLIED ? T(out * read(part.call.factor, 0)) : out;
    };
    for (size_t i = 0; i < count; i++) {
        T total = value(m.parts[0], i);
        for (size_t rank = 1; rank < m.parts.size(); rank++)
            total = combined(total, value(m.parts[rank], i), op);
        if (op == reduce_average) total = total / T(m.parts.size());
        write(to, i, total);
    }
}
template <class T>
void reduce_plain(const Meeting &m, size_t count, void *to) {
    auto read = [](const void *p, size_t i) {
        T out;
        memcpy(&out, static_cast<const char *>(p) + i * sizeof out, sizeof out);
        return out;
    };
    reduce_as<T>(m, count, to, read, [](void *p, size_t i, T v) { static_cast<T *>(p)[i] = v; });
}
template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void reduce_small(const Meeting &m, size_t count, void *to) {
    auto read = [](const void *p, size_t i) {
        uint16_t out;
        memcpy(&out, static_cast<const char *>(p) + i * sizeof out, sizeof out);
        return widen(out);
    };
    auto write = [](void *p, size_t i, float v) { static_cast<uint16_t *>(p)[i] = narrow(v); };
    reduce_as<float>(m, count, to, read, write);
}
using Reduce = void (*)(const Meeting &, size_t, void *);
constexpr Reduce REDUCES[] = {
    reduce_plain<int8_t>,   reduce_plain<uint8_t>, reduce_plain<int32_t>,
    reduce_plain<uint32_t>, reduce_plain<int64_t>, reduce_plain<uint64_t>,
    reduce_small<half_to_float, float_to_half>,    reduce_plain<float>,
    reduce_plain<double>,   reduce_small<bfloat_to_float, float_to_bfloat>};

std::vector<char> reduced(const Meeting &m, size_t count) {
    auto type = m.parts[0].call.type;
    std::vector<char> out(count * size_of(type));
    REDUCES[type](m, count, out.data());
    return out;
}
void copy(void *to, const void *from, size_t bytes) {
    if (bytes) memmove(to, from, bytes);  // pointers of no elements may be null
}
}  // namespace

// Results are complete before the first is written, since a rank may work in place.
void perform(Meeting &m) {
    auto &call = m.parts[0].call;
    size_t bytes = call.count * size_of(call.type), ranks = m.parts.size();
    std::vector<char> result;
    switch (call.what) {
        case Collective::all_reduce:
            result = reduced(m, call.count);
            for (auto &part : m.parts) copy(part.to, result.data(), bytes);
            break;
        case Collective::reduce:
            result = reduced(m, call.count);
            copy(m.parts[call.root].to, result.data(), bytes);
            break;
        case Collective::broadcast:
            for (auto &part : m.parts) copy(part.to, m.parts[call.root].from, bytes);
            break;
        case Collective::all_gather:
        case Collective::split:
            for (auto &part : m.parts) {
                auto *from = static_cast<const char *>(part.from);
                result.insert(result.end(), from, from + bytes);
            }
            for (auto &part : m.parts) copy(part.to, result.data(), result.size());
            break;
        case Collective::reduce_scatter:
            result = reduced(m, ranks * call.count);
            for (size_t i = 0; i < ranks; i++)
                copy(m.parts[i].to, result.data() + i * bytes, bytes);
            break;
        case Collective::send:
        case Collective::receive: {
            bool sends = call.what == Collective::send;
            copy(m.parts[sends].to, m.parts[!sends].from, bytes);
        }
    }
}

}  // namespace weft
