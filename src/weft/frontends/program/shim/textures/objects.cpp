// Texture and surface objects, and the function that kernels call with their handles.
#include "request.h"

#include <algorithm>
#include <shared_mutex>
#include <unordered_map>

API uint64_t weft_generation();

namespace weft {
namespace {
std::shared_mutex objects_mutex;
std::unordered_map<uint64_t, std::shared_ptr<const Object>> objects;
uint64_t last_handle = 0;  // a handle is used once, so that one of a destroyed object is unknown
std::mutex error_mutex;
std::string error_text;

std::shared_ptr<const Object> object_of(uint64_t handle) {
    std::shared_lock<std::shared_mutex> guard(objects_mutex);
    auto found = objects.find(handle);
    return found == objects.end() ? nullptr : found->second;
}
uint64_t keep(std::shared_ptr<const Object> object) {
    std::unique_lock<std::shared_mutex> guard(objects_mutex);
    objects[++last_handle] = std::move(object);
    return last_handle;
}
cudaError_t destroy(uint64_t handle, bool surface) {
    WORKING;
    if (!handle) return cudaSuccess;
    auto object = object_of(handle);
    if (!object || object->surface != surface) {  // which a GPU's runtime takes without a word
        say("object %llu was destroyed before or never made", (unsigned long long)handle);
        return cudaSuccess;
    }
    std::unique_lock<std::shared_mutex> guard(objects_mutex);
    objects.erase(handle);
    return cudaSuccess;
}

// ---- what an object reads -----------------------------------------------------------------------

cudaError_t of_array(const cudaArray *array, Object *out) {
    if (!is_array(array)) return cudaErrorInvalidResourceHandle;
    out->format = array->format;
    out->layered = array->flags & cudaArrayLayered;
    out->cubemap = array->flags & cudaArrayCubemap;
    out->levels = {array->level};
    return cudaSuccess;
}

cudaError_t of_mipmap(const cudaMipmappedArray *mipmap, Object *out) {
    if (!is_mipmap(mipmap)) return cudaErrorInvalidResourceHandle;
    of_array(&mipmap->levels[0], out);
    out->levels.clear();
    for (auto &one : mipmap->levels) out->levels.push_back(one.level);
    return cudaSuccess;
}

cudaError_t of_memory(const cudaResourceDesc &resource, Object *out) {
    bool flat = resource.resType == cudaResourceTypeLinear;
    auto &linear = resource.res.linear;
    auto &pitched = resource.res.pitch2D;
    if (!format_of(flat ? linear.desc : pitched.desc, &out->format))
        return cudaErrorInvalidChannelDescriptor;
    size_t texel = out->format.bytes();
    Level level;
    level.data = static_cast<char *>(flat ? linear.devPtr : pitched.devPtr);
    level.width = int(flat ? linear.sizeInBytes / texel : pitched.width);
    level.height = int(flat ? 1 : pitched.height);
    level.pitch = flat ? linear.sizeInBytes : pitched.pitchInBytes;
    level.plane = level.pitch * level.height;
    if (uintptr_t(level.data) % TEXTURE_ALIGN) return cudaErrorInvalidValue;
    if (flat && linear.sizeInBytes / texel > most_linear_texels(out->format))
        return cudaErrorInvalidValue;
    if (!flat && (level.pitch % TEXTURE_PITCH_ALIGN || level.pitch < level.width * texel ||
                  !level.width || !level.height))
        return cudaErrorInvalidValue;
    out->levels = {level};
    return check_range("cudaCreateTextureObject", level.data, level.plane, true);
}

cudaError_t resolve(const cudaResourceDesc &resource, Object *out) {
    switch (resource.resType) {
        case cudaResourceTypeArray: return of_array(resource.res.array.array, out);
        case cudaResourceTypeMipmappedArray: return of_mipmap(resource.res.mipmap.mipmap, out);
        default: return of_memory(resource, out);
    }
}

// A view: other channels of the same bytes, some of the levels and layers.
cudaError_t restrict_to(const cudaResourceViewDesc &view, Object *out) {
    static const struct {
        cudaChannelFormatKind kind;
        int bits;
    } formats[] = {{cudaChannelFormatKindUnsigned, 8},  {cudaChannelFormatKindSigned, 8},
                   {cudaChannelFormatKindUnsigned, 16}, {cudaChannelFormatKindSigned, 16},
                   {cudaChannelFormatKindUnsigned, 32}, {cudaChannelFormatKindSigned, 32},
                   {cudaChannelFormatKindFloat, 16},    {cudaChannelFormatKindFloat, 32}};
    if (view.format > cudaResViewFormatFloat4) {
        say("a view of block-compressed texels is not supported");
        return cudaErrorNotSupported;
    }
    if (view.format) {
        auto &row = formats[(view.format - 1) / 3];
        Format format{row.kind, row.bits, 1 << (view.format - 1) % 3};
        if (format.bytes() != out->format.bytes()) return cudaErrorInvalidValue;
        out->format = format;
    }
    if (view.lastMipmapLevel < view.firstMipmapLevel ||
        view.lastMipmapLevel >= out->levels.size() || view.lastLayer < view.firstLayer)
        return cudaErrorInvalidValue;
    out->levels.erase(out->levels.begin() + view.lastMipmapLevel + 1, out->levels.end());
    out->levels.erase(out->levels.begin(), out->levels.begin() + view.firstMipmapLevel);
    if (!out->layered) return cudaSuccess;
    for (auto &level : out->levels) {
        if (view.lastLayer >= unsigned(level.depth)) return cudaErrorInvalidValue;
        level.data += view.firstLayer * level.plane;
        level.depth = int(view.lastLayer - view.firstLayer + 1);
    }
    return cudaSuccess;
}

cudaError_t check_texture(const Object &o) {
    if (o.desc.readMode == cudaReadModeNormalizedFloat && o.format.bits == 32)
        return cudaErrorInvalidNormSetting;
    if (o.desc.filterMode == cudaFilterModeLinear && !o.real())
        return cudaErrorInvalidFilterSetting;
    if (o.levels.size() > 1 && !o.desc.normalizedCoords) return cudaErrorInvalidValue;
    return cudaSuccess;
}

// ---- one warp -----------------------------------------------------------------------------------

float as_float(int64_t bits) {
    float x;
    uint32_t word = uint32_t(bits);
    memcpy(&x, &word, 4);
    return x;
}

// Coordinates of a lane; `rows` points to its first value after the handle.
Coordinates read_coordinates(const Request &request, const int64_t *rows) {
    static const int sizes[] = {1, 2, 3, 1, 2, 3, 3};
    Coordinates c;
    int size = sizes[request.geometry];
    auto next = [&rows] { return rows += 32, rows[-32]; };
    if (request.layered()) c.layer = int(next());
    bool floats = Operation(request.operation) == Operation::fetch && request.more;
    for (int i = 0; i < size; i++) {
        int64_t bits = next();
        c.integer[i] = int(bits);
        c.x[i] = floats ? as_float(bits) : float(int(bits));
    }
    if (Operation(request.operation) != Operation::fetch) return c;
    if (Function(request.function) == Function::level)
        c.lod = floats ? as_float(*rows) : float(int(*rows));
    if (Function(request.function) == Function::gradient) {
        for (int i = 0; i < size; i++) c.dx[i] = as_float(next());
        for (int i = 0; i < size; i++) c.dy[i] = as_float(next());
    }
    return c;
}

int64_t answer(const Object &o, Query query) {
    auto &level = o.levels[0];
    switch (query) {
        case Query::width: return level.width;
        case Query::height: return o.resource.resType == cudaResourceTypeLinear ? 0 : level.height;
        case Query::depth: return o.layered || o.cubemap ? 0 : level.depth;
        case Query::array_size: return o.layered ? level.depth / (o.cubemap ? 6 : 1) : 0;
        case Query::levels: return int64_t(o.levels.size());
        default: return o.desc.normalizedCoords;
    }
}

// True if the memory of an object is still allocated; looked up after memory was allocated or
// freed.
bool alive(const Object &o) {
    uint64_t now = weft_generation();
    if (o.checked == now) return true;
    bool held;
    if (o.resource.resType == cudaResourceTypeArray) {
        held = is_array(o.resource.res.array.array);
    } else if (o.resource.resType == cudaResourceTypeMipmappedArray) {
        held = is_mipmap(o.resource.res.mipmap.mipmap);
    } else {
        uintptr_t start;
        Allocation found;
        uint64_t room;
        auto &level = o.levels[0];
        held = find(level.data, &start, &found)
                   ? uintptr_t(level.data) + level.plane <= start + found.size
                   : ops.variable_at(level.data, &room) != 0;
    }
    if (held) o.checked = now;
    return held;
}

// Texture and surface handles are numbers of one table; an instruction takes one of its own kind.
const char *unsuitable(const Object *o, const Request &request) {
    auto operation = Operation(request.operation);
    bool surface = operation != Operation::fetch && operation != Operation::ask;
    if (!o) return "was destroyed or never made";
    if (!alive(*o)) return "reads memory that was freed";
    if (operation != Operation::ask && o->surface != surface)
        return surface ? "is a texture object, not a surface object"
                       : "is a surface object, not a texture object";
    if (operation == Operation::fetch) {
        bool cube = request.shape() == Geometry::cube || request.shape() == Geometry::acube;
        if (cube && !o->cubemap) return "is not a cube map";
        if (request.layered() && !o->layered) return "has no layers";
    }
    return nullptr;
}

void note(const char *form, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    std::lock_guard<std::mutex> guard(error_mutex);
    error_text = text;
}

// True if a fetch is outside of linear memory, where a GPU reads zero.
bool beyond_linear(const Object &o, const Request &request, const Coordinates &at) {
    return o.resource.resType == cudaResourceTypeLinear && !request.more &&
           unsigned(at.integer[0]) >= unsigned(o.levels[0].width);
}

bool execute(const Object &o, const Request &request, int64_t *lane, bool strict) {
    auto operation = Operation(request.operation);
    if (operation == Operation::ask) {
        lane[0] = answer(o, Query(request.function));
        return true;
    }
    auto at = read_coordinates(request, lane + 32);
    if (operation == Operation::fetch) {
        if (strict && beyond_linear(o, request, at)) {
            note("fetches out of range from texture object %llu of linear memory: texel %d; texels "
                 "0 to %d",
                 (unsigned long long)lane[0], at.integer[0], o.levels[0].width - 1);
            return false;
        }
        auto texel = fetch(o, request, at);
        for (int i = 0; i < 4; i++) lane[32 * i] = texel.bits[i];
        return true;
    }
    uint64_t handle = uint64_t(lane[0]);
    if (access(o, request, at, lane, 32)) return true;
    auto &level = o.levels[0];
    int bytes = access_bytes(request);
    if (at.integer[0] % bytes) {
        note("makes a misaligned access to surface object %llu: byte %d; a multiple of %d",
             (unsigned long long)handle, at.integer[0], bytes);
        return false;
    }
    note("accesses surface object %llu out of range: byte %d of row %d, slice or layer %d; rows "
         "of %zu bytes, %d rows, %d slices or layers",
         (unsigned long long)handle, at.integer[0], at.integer[1],
         request.layered() ? at.layer : at.integer[2], level.width * o.format.bytes(), level.height,
         level.depth);
    return false;
}
}  // namespace
}  // namespace weft

using namespace weft;

namespace {
// Executes an instruction for the lanes of a warp; 1 + the lane whose access is wrong, or 0.
int32_t run_unit(const Request *request, uint32_t lanes, int64_t *values, bool strict) {
    uint64_t handle = 0;
    std::shared_ptr<const Object> object;
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        if (!object || uint64_t(values[lane]) != handle) object = object_of(handle = values[lane]);
        if (auto *why = unsuitable(object.get(), *request)) {
            note("uses object %llu, which %s; a handle of a texture or surface object",
                 (unsigned long long)handle, why);
            return 1 + lane;
        }
        if (!execute(*object, *request, values + lane, strict)) return 1 + lane;
    }
    return 0;
}
}  // namespace

API int32_t weft_texture_unit(const Request *request, uint32_t lanes, int64_t *values) {
    return run_unit(request, lanes, values, false);
}
// For launches under the sanitizer.
API int32_t weft_texture_unit_strict(const Request *request, uint32_t lanes, int64_t *values) {
    return run_unit(request, lanes, values, true);
}
API void weft_texture_error(char *out, size_t room) {
    std::lock_guard<std::mutex> guard(error_mutex);
    snprintf(out, room, "%s", error_text.c_str());
}

// ---- the program's calls ------------------------------------------------------------------------

API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *out, const cudaResourceDesc *resource,
                                        const cudaTextureDesc *desc,
                                        const cudaResourceViewDesc *view) {
    WORKING;
    if (!out || !resource || !desc) return failed(cudaErrorInvalidValue);
    auto object = std::make_shared<Object>();
    object->resource = *resource, object->desc = *desc;
    if (auto error = resolve(*resource, object.get())) return failed(error);
    if (view) {
        object->view = *view;
        if (auto error = restrict_to(*view, object.get())) return failed(error);
    }
    if (auto error = check_texture(*object)) return failed(error);
    *out = keep(object);
    return cudaSuccess;
}
API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    return destroy(object, false);
}
API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *out,
                                        const cudaResourceDesc *resource) {
    WORKING;
    if (!out || !resource || resource->resType != cudaResourceTypeArray)
        return failed(cudaErrorInvalidValue);
    auto object = std::make_shared<Object>();
    object->surface = true, object->resource = *resource;
    if (auto error = of_array(resource->res.array.array, object.get())) return failed(error);
    *out = keep(object);
    return cudaSuccess;
}
API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    return destroy(object, true);
}

namespace {
template <class T>
cudaError_t ask(uint64_t handle, bool surface, T *out, T Object::*field) {
    WORKING;
    auto object = object_of(handle);
    if (!out || !object || object->surface != surface) return failed(cudaErrorInvalidValue);
    *out = (*object).*field;
    return cudaSuccess;
}
}  // namespace
API cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *out,
                                                 cudaTextureObject_t object) {
    return ask(object, false, out, &Object::resource);
}
API cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *out, cudaTextureObject_t object) {
    return ask(object, false, out, &Object::desc);
}
API cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *out,
                                                     cudaTextureObject_t object) {
    return ask(object, false, out, &Object::view);
}
API cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *out,
                                                 cudaSurfaceObject_t object) {
    return ask(object, true, out, &Object::resource);
}
