// Device code that is linked at run time, by cuLink and by nvJitLink, and the logs of both.
#include <cuda.h>
#include <nvJitLink.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define HOLDS(what)                                             \
    if (!(what)) {                                              \
        printf("line %d: %s does not hold\n", __LINE__, #what); \
        exit(1);                                                \
    }
#define CU(call) HOLDS((call) == CUDA_SUCCESS)
#define JIT(call) HOLDS((call) == NVJITLINK_SUCCESS)

static const std::string head = ".version 8.0\n.target sm_80\n.address_size 64\n";
static const std::string caller = head + R"(
.extern .func (.param .b32 r) twice(.param .b32 a);
.visible .entry k(.param .u64 x) {
    .reg .b64 %p;
    .reg .b32 %a;
    ld.param.u64 %p, [x];
    ld.global.u32 %a, [%p];
    { .param .b32 a; .param .b32 r;
      st.param.b32 [a], %a;
      call (r), twice, (a);
      ld.param.b32 %a, [r]; }
    st.global.u32 [%p], %a;
    ret;
})";
static const std::string helper = head + R"(
.visible .func (.param .b32 r) twice(.param .b32 a) {
    .reg .b32 %a;
    ld.param.b32 %a, [a];
    add.u32 %a, %a, %a;
    st.param.b32 [r], %a;
    ret;
})";
static const std::string wrong = head + ".visible .entry k() {\n    .reg .b32 %a;\n    addd.u32 %a, %a, 1;\n    ret;\n}\n";

static int result_of(const void *image) {
    CUmodule module;
    CUfunction k;
    CUdeviceptr x;
    int value = 21;
    CU(cuModuleLoadData(&module, image));
    CU(cuModuleGetFunction(&k, module, "k"));
    CU(cuMemAlloc(&x, sizeof value));
    CU(cuMemcpyHtoD(x, &value, sizeof value));
    void *arguments[] = {&x};
    CU(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CU(cuMemcpyDtoH(&value, x, sizeof value));
    CU(cuMemFree(x));
    return value;
}

struct Logs {
    char info[200], error[200];
    CUjit_option options[5] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_LOG_VERBOSE};
    void *values[5] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)1};
    Logs() { memset(info, 'x', sizeof info), memset(error, 'y', sizeof error); }
    bool are_whole() {
        return strlen(info) == (size_t)values[1] && strlen(error) == (size_t)values[3];
    }
};

static void link_by_driver() {
    CUlinkState state;
    void *cubin;
    size_t bytes;
    Logs logs;
    CU(cuLinkCreate(5, logs.options, logs.values, &state));
    CU(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)caller.c_str(), caller.size() + 1, "caller", 0, 0, 0));
    CU(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)helper.c_str(), helper.size() + 1, "helper", 0, 0, 0));
    CU(cuLinkComplete(state, &cubin, &bytes));
    HOLDS(logs.are_whole() && strstr(logs.info, "caller, helper") && !logs.error[0]);
    HOLDS(result_of(cubin) == 42);
    CU(cuLinkDestroy(state));

    Logs failing;
    CU(cuLinkCreate(5, failing.options, failing.values, &state));
    CU(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)wrong.c_str(), wrong.size() + 1, "wrong.ptx", 0, 0, 0));
    HOLDS(cuLinkComplete(state, &cubin, &bytes) == CUDA_ERROR_INVALID_PTX);
    HOLDS(failing.are_whole() && strstr(failing.error, "wrong.ptx:6: addd.u32"));
    CU(cuLinkDestroy(state));

    CUmodule module;
    Logs loading, little;
    HOLDS(cuModuleLoadDataEx(&module, wrong.c_str(), 5, loading.options, loading.values) ==
          CUDA_ERROR_INVALID_PTX);
    HOLDS(loading.are_whole() && strstr(loading.error, ":6: addd.u32") && !loading.info[0]);
    little.values[3] = (void *)4;
    HOLDS(cuModuleLoadDataEx(&module, wrong.c_str(), 5, little.options, little.values) ==
          CUDA_ERROR_INVALID_PTX);
    HOLDS(!strcmp(little.error, "err"));
}

static void link_by_library() {
    nvJitLinkHandle link;
    const char *options[] = {"-arch=sm_80"};
    HOLDS(nvJitLinkCreate(&link, 0, options) == NVJITLINK_ERROR_MISSING_ARCH);
    JIT(nvJitLinkCreate(&link, 1, options));
    JIT(nvJitLinkAddData(link, NVJITLINK_INPUT_PTX, caller.data(), caller.size(), "caller"));
    JIT(nvJitLinkAddData(link, NVJITLINK_INPUT_PTX, helper.data(), helper.size(), "helper"));
    JIT(nvJitLinkComplete(link));
    size_t bytes;
    JIT(nvJitLinkGetLinkedCubinSize(link, &bytes));
    std::vector<char> cubin(bytes);
    JIT(nvJitLinkGetLinkedCubin(link, cubin.data()));
    HOLDS(result_of(cubin.data()) == 42);
    JIT(nvJitLinkGetErrorLogSize(link, &bytes));
    HOLDS(bytes == 1);
    HOLDS(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, "ir", 2, "ir") == NVJITLINK_ERROR_INVALID_INPUT);
    JIT(nvJitLinkDestroy(&link));

    JIT(nvJitLinkCreate(&link, 1, options));
    JIT(nvJitLinkAddData(link, NVJITLINK_INPUT_PTX, wrong.data(), wrong.size(), "wrong"));
    HOLDS(nvJitLinkComplete(link) == NVJITLINK_ERROR_PTX_COMPILE);
    JIT(nvJitLinkGetErrorLogSize(link, &bytes));
    std::vector<char> log(bytes);
    JIT(nvJitLinkGetErrorLog(link, log.data()));
    HOLDS(strstr(log.data(), "wrong:6: addd.u32"));
    JIT(nvJitLinkDestroy(&link));
}

int main() {
    CUdevice device;
    CUcontext context;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    link_by_driver();
    link_by_library();
    printf("linked\n");
}
