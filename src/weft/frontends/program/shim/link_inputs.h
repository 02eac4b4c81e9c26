// The inputs of cuLink and of nvJitLink, which are linked to one module of device code.
#pragma once

#include "standard.h"
#include "weft.h"

namespace weft {

struct LinkInputs {
    std::vector<std::string> images, names;

    void add(const void *data, size_t bytes, const char *name) {
        images.emplace_back(static_cast<const char *>(data), bytes);
        names.emplace_back(name ? name : "ptx");
    }
    // A CUresult; `to` receives the PTX, or what is wrong.
    int link(void *to, Receive receive) const {
        std::vector<const void *> data;
        std::vector<uint64_t> sizes;
        std::vector<const char *> called;
        for (auto &image : images) data.push_back(image.data()), sizes.push_back(image.size());
        for (auto &name : names) called.push_back(name.c_str());
        return ops.link(data.data(), sizes.data(), called.data(), int(data.size()), to, receive);
    }
};

// The whole of a file; false where it cannot be read.
inline bool read_file(const char *path, std::string *text) {
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    char block[1 << 16];
    for (size_t count; (count = fread(block, 1, sizeof block, file));) text->append(block, count);
    bool good = !ferror(file);
    fclose(file);
    return good;
}

}  // namespace weft
