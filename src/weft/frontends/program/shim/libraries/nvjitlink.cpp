// nvJitLink: links PTX, fat binaries, objects and archives. The result is PTX in place of a cubin;
// LTO-IR is refused.
#define NVJITLINK_NO_INLINE
#include <nvJitLink.h>

#include "../link_inputs.h"

using namespace weft;

struct nvJitLink {
    LinkInputs inputs;
    std::string result, error, info;

    static void receive(void *link, Sent what, const char *text, uint64_t bytes) {
        auto *to = static_cast<nvJitLink *>(link);
        if (what == Sent::result) to->result.assign(text, bytes);
        else (what == Sent::error ? to->error : to->info).append(text, bytes) += '\n';
    }
    nvJitLinkResult fail(nvJitLinkResult result, const char *why) {
        receive(this, Sent::error, why, strlen(why));
        say("nvJitLink: %s", why);
        return result;
    }
};

namespace {
// Sizes and copies of a text, with its zero.
nvJitLinkResult size_of(const std::string &text, size_t *size) {
    *size = text.size() + 1;
    return NVJITLINK_SUCCESS;
}
nvJitLinkResult copy_of(const std::string &text, void *out) {
    memcpy(out, text.c_str(), text.size() + 1);
    return NVJITLINK_SUCCESS;
}
nvJitLinkResult linked_size(const nvJitLink *link, size_t *size) {
    return link->result.empty() ? NVJITLINK_ERROR_INTERNAL : size_of(link->result, size);
}
nvJitLinkResult linked_copy(const nvJitLink *link, void *out) {
    return link->result.empty() ? NVJITLINK_ERROR_INTERNAL : copy_of(link->result, out);
}
constexpr int INVALID_PTX = 218;  // CUDA_ERROR_INVALID_PTX
}  // namespace

API nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *out, uint32_t count, const char **options) {
    bool has_architecture = false;
    for (uint32_t i = 0; i < count; i++) has_architecture |= !strncmp(options[i], "-arch=", 6);
    if (!has_architecture) return NVJITLINK_ERROR_MISSING_ARCH;
    *out = new nvJitLink;
    return NVJITLINK_SUCCESS;
}
API nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *link) {
    delete *link;
    *link = nullptr;
    return NVJITLINK_SUCCESS;
}
API nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle link, nvJitLinkInputType type,
                                     const void *data, size_t bytes, const char *name) {
    if (!data || !bytes) return NVJITLINK_ERROR_NULL_INPUT;
    if (type == NVJITLINK_INPUT_LTOIR)
        return link->fail(NVJITLINK_ERROR_INVALID_INPUT,
                          "LTO-IR cannot be linked: add PTX (NVJITLINK_INPUT_PTX)");
    if (type == NVJITLINK_INPUT_INDEX)
        return link->fail(NVJITLINK_ERROR_INVALID_INPUT, "index files cannot be linked");
    link->inputs.add(data, bytes, name);
    return NVJITLINK_SUCCESS;
}
API nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle link, nvJitLinkInputType type,
                                     const char *path) {
    std::string text;
    if (!read_file(path, &text)) return link->fail(NVJITLINK_ERROR_INVALID_INPUT, "no such file");
    return nvJitLinkAddData(link, type, text.data(), text.size(), path);
}
API nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle link) {
    int error = link->inputs.link(link, nvJitLink::receive);
    if (!error) return NVJITLINK_SUCCESS;
    return error == INVALID_PTX ? NVJITLINK_ERROR_PTX_COMPILE : NVJITLINK_ERROR_INVALID_INPUT;
}
API nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle link, size_t *size) {
    return linked_size(link, size);
}
API nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle link, void *out) {
    return linked_copy(link, out);
}
API nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle link, size_t *size) {
    return linked_size(link, size);
}
API nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle link, char *out) {
    return linked_copy(link, out);
}
API nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle link, size_t *size) {
    return size_of(link->error, size);
}
API nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle link, char *out) {
    return copy_of(link->error, out);
}
API nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle link, size_t *size) {
    return size_of(link->info, size);
}
API nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle link, char *out) {
    return copy_of(link->info, out);
}
API nvJitLinkResult nvJitLinkVersion(unsigned *major, unsigned *minor) {
    *major = CUDART_VERSION / 1000, *minor = CUDART_VERSION / 10 % 100;
    return NVJITLINK_SUCCESS;
}
