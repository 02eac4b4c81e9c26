// Functions that the code that nvcc adds to a program calls before main: they register its device
// code, kernels and variables.
#include "weft.h"

using namespace weft;

namespace {
struct Wrapper {
    int magic, version;
    const unsigned char *data;
    void *more;
};
struct Header {  // of a fat binary
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};
struct Managed {
    void **handle, **host;
    const char *name;
};
uint64_t units = 0;
Array<Managed> managed;

void **register_unit(void *wrapper, int linked) {
    auto *data = static_cast<Wrapper *>(wrapper)->data;
    Header header;
    memcpy(&header, data, sizeof header);
    auto *handle = new uint64_t(++units);
    ops.fat_binary(*handle, data, header.header_bytes + header.bytes, linked);
    return reinterpret_cast<void **>(handle);
}
constexpr uint32_t WRAPPER = 0x466243b1, FAT_BINARY = 0xba55ed50;
uint64_t number(void **handle) { return *reinterpret_cast<uint64_t *>(handle); }
}  // namespace

int weft::load_device_code(const void *image, uint64_t *unit, void *to, Receive receive) {
    constexpr int INVALID_IMAGE = 200;
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == WRAPPER) image = static_cast<const Wrapper *>(image)->data;
    *unit = ++units;
    if (magic == WRAPPER || magic == FAT_BINARY) {
        Header header;
        memcpy(&header, image, sizeof header);
        return ops.load(*unit, image, header.header_bytes + header.bytes, to, receive);
    }
    auto *text = static_cast<const char *>(image);
    if (!strncmp(text, "\177ELF", 4)) {
        const char *why = "machine code of a GPU cannot be simulated: load PTX instead of a cubin";
        receive(to, Sent::error, why, strlen(why));
        return INVALID_IMAGE;
    }
    return ops.load(*unit, text, strlen(text), to, receive);
}

API void **__cudaRegisterFatBinary(void *wrapper) { return register_unit(wrapper, 0); }
API void __cudaRegisterFatBinaryEnd(void **) {}
API void __cudaUnregisterFatBinary(void **) {}

// Called before the host first touches a managed variable: it does so through a pointer, which is
// filled in here.
API char __cudaInitModule(void **) {
    for (auto &each : managed) {
        uint64_t size;
        *each.host = reinterpret_cast<void *>(ops.symbol(each.host, &size));
        ops.variable(number(each.handle), *each.host,
                     each.name);  // the symbol functions are given either
    }
    managed.clear();
    return 1;
}

// With relocatable device code each file asks the linker for a function; stubs.py makes them of
// this one.
API void weft_register_linked(void (*registers)(void **), void *wrapper) {
    registers(register_unit(wrapper, 1));
}

API void __cudaRegisterFunction(void **handle, const char *host, char *, const char *name, int,
                                uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    ops.function(number(handle), host, name);
}

API void __cudaRegisterVar(void **handle, char *host, char *, const char *name, int, size_t, int,
                           int) {
    ops.variable(number(handle), host, name);
}

API void __cudaRegisterManagedVar(void **handle, void **host, char *, const char *name, int, size_t,
                                  int, int) {
    ops.variable(number(handle), host, name);
    managed.push_back({handle, host, name});
}
