// The linker of device code: PTX, fat binaries, objects and archives. The result is PTX, which
// takes the place of a cubin.
#include "link.h"

using namespace weft;

JitLogs::JitLogs(unsigned count, CUjit_option *options, void **values) {
    for (unsigned i = 0; i < count; i++) switch (options[i]) {
            case CU_JIT_INFO_LOG_BUFFER: infos.text = static_cast<char *>(values[i]); break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: infos.bytes = &values[i]; break;
            case CU_JIT_ERROR_LOG_BUFFER: errors.text = static_cast<char *>(values[i]); break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: errors.bytes = &values[i]; break;
            case CU_JIT_LOG_VERBOSE: verbose = values[i]; break;
            case CU_JIT_WALL_TIME: time = &values[i]; break;
            default: break;
        }
}

void JitLogs::Buffer::write(const std::string &message) const {
    if (!bytes) return;
    size_t room = unsigned(reinterpret_cast<uintptr_t>(*bytes)), used = 0;
    if (text && room) {
        used = std::min(message.size(), room - 1);
        memcpy(text, message.data(), used);
        text[used] = 0;
    }
    *bytes = reinterpret_cast<void *>(used);
}

void JitLogs::write() {
    errors.write(error);
    infos.write(verbose ? info : "");
    if (!error.empty() && !(errors.text && errors.bytes)) say("%s", error.c_str());
    if (!time) return;
    float milliseconds = float(now_ns() - begin) / 1e6f;
    memcpy(time, &milliseconds, sizeof milliseconds);
}

void JitLogs::receive(void *logs, Sent what, const char *text, uint64_t bytes) {
    auto *to = static_cast<JitLogs *>(logs);
    (what == Sent::error ? to->error : to->info).append(text, bytes) += '\n';
}

namespace {
struct Link {
    JitLogs logs;
    LinkInputs inputs;
    std::string result;

    static void receive(void *link, Sent what, const char *text, uint64_t bytes) {
        auto *to = static_cast<Link *>(link);
        if (what == Sent::result) to->result.assign(text, bytes);
        else JitLogs::receive(&to->logs, what, text, bytes);
    }
};
Link *link_of(CUlinkState state) { return reinterpret_cast<Link *>(state); }
}  // namespace

API CUresult cuLinkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *out) {
    *out = reinterpret_cast<CUlinkState>(new Link{JitLogs(count, options, values), {}, {}});
    return CUDA_SUCCESS;
}
API CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
                           const char *name, unsigned, CUjit_option *, void **) {
    if (type == CU_JIT_INPUT_CUBIN && static_cast<char *>(data)[0] == '\177') {
        say("cuLinkAddData: machine code of a GPU cannot be linked: add PTX instead of a cubin");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    link_of(state)->inputs.add(data, bytes, name);
    return CUDA_SUCCESS;
}
API CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                           CUjit_option *options, void **values) {
    std::string text;
    if (!read_file(path, &text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuLinkAddData(state, type, text.data(), text.size(), path, count, options, values);
}
API CUresult cuLinkComplete(CUlinkState state, void **out, size_t *bytes) {
    auto *link = link_of(state);
    int error = link->inputs.link(link, Link::receive);
    link->logs.write();
    if (error) return static_cast<CUresult>(error);
    *out = link->result.data();
    // A string that ends with a zero, as modules are loaded from PTX.
    if (bytes) *bytes = link->result.size() + 1;
    return CUDA_SUCCESS;
}
API CUresult cuLinkDestroy(CUlinkState state) {
    delete link_of(state);
    return CUDA_SUCCESS;
}
