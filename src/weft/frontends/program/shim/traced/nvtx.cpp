// NVTX ranges and marks, for a timeline. The header of NVTX loads the library that
// NVTX_INJECTION64_PATH names and calls its `InitializeInjectionNvtx2`, which sets the functions
// that take ranges.
#include "../trace.h"

#include <string>

#include <nvtx3/nvToolsExt.h>

using namespace weft;

namespace {
void tell(RangeEvent what, uint64_t number, const std::string &text) {
    if (trace) trace->range(int(what), number, text.c_str());
}

std::string utf8(const wchar_t *wide) {
    std::string out;
    for (; wide && *wide; wide++) {
        auto c = uint32_t(*wide);
        int bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        const uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
        out += char(lead[bytes - 1] | c >> 6 * (bytes - 1));
        for (int i = bytes - 2; i >= 0; i--) out += char(0x80 | (c >> 6 * i & 0x3f));
    }
    return out;
}

// Domains and registered strings are their own names, which live as long as the program.
const char *name_of(const void *handle) { return static_cast<const char *>(handle); }
void *named(const std::string &name) { return strdup(name.c_str()); }

std::string text_of(const nvtxEventAttributes_t *event, nvtxDomainHandle_t domain = nullptr) {
    std::string text;
    if (event && event->messageType == NVTX_MESSAGE_TYPE_ASCII)
        text = event->message.ascii ? event->message.ascii : "";
    else if (event && event->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        text = utf8(event->message.unicode);
    else if (event && event->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        text = name_of(event->message.registered);
    return domain ? std::string(name_of(domain)) + ":" + text : text;
}

thread_local int pushed = 0;
std::atomic<uint64_t> started{0};

int push(const std::string &text) {
    tell(RangeEvent::push, 0, text);
    return pushed++;
}
int pop() {
    if (!pushed) return -1;
    tell(RangeEvent::pop, 0, "");
    return --pushed;
}
nvtxRangeId_t start(const std::string &text) {
    uint64_t number = ++started;
    tell(RangeEvent::start, number, text);
    return number;
}
void mark(const std::string &text) { tell(RangeEvent::mark, 0, text); }

void mark_ex(const nvtxEventAttributes_t *event) { mark(text_of(event)); }
void mark_a(const char *text) { mark(text); }
void mark_w(const wchar_t *text) { mark(utf8(text)); }
nvtxRangeId_t start_ex(const nvtxEventAttributes_t *event) { return start(text_of(event)); }
nvtxRangeId_t start_a(const char *text) { return start(text); }
nvtxRangeId_t start_w(const wchar_t *text) { return start(utf8(text)); }
void end(nvtxRangeId_t number) { tell(RangeEvent::end, number, ""); }
int push_ex(const nvtxEventAttributes_t *event) { return push(text_of(event)); }
int push_a(const char *text) { return push(text); }
int push_w(const wchar_t *text) { return push(utf8(text)); }

void domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    mark(text_of(event, domain));
}
nvtxRangeId_t domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    return start(text_of(event, domain));
}
void domain_end(nvtxDomainHandle_t, nvtxRangeId_t number) { end(number); }
int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    return push(text_of(event, domain));
}
int domain_pop(nvtxDomainHandle_t) { return pop(); }
nvtxStringHandle_t register_a(nvtxDomainHandle_t, const char *text) {
    return static_cast<nvtxStringHandle_t>(named(text));
}
nvtxStringHandle_t register_w(nvtxDomainHandle_t, const wchar_t *text) {
    return static_cast<nvtxStringHandle_t>(named(utf8(text)));
}
nvtxDomainHandle_t create_a(const char *name) {
    return static_cast<nvtxDomainHandle_t>(named(name));
}
nvtxDomainHandle_t create_w(const wchar_t *name) {
    return static_cast<nvtxDomainHandle_t>(named(utf8(name)));
}

struct Served {
    unsigned number;
    void *function;
};
const Served core[] = {
    {NVTX_CBID_CORE_MarkEx, (void *)mark_ex},       {NVTX_CBID_CORE_MarkA, (void *)mark_a},
    {NVTX_CBID_CORE_MarkW, (void *)mark_w},         {NVTX_CBID_CORE_RangeStartEx, (void *)start_ex},
    {NVTX_CBID_CORE_RangeStartA, (void *)start_a},  {NVTX_CBID_CORE_RangeStartW, (void *)start_w},
    {NVTX_CBID_CORE_RangeEnd, (void *)end},         {NVTX_CBID_CORE_RangePushEx, (void *)push_ex},
    {NVTX_CBID_CORE_RangePushA, (void *)push_a},    {NVTX_CBID_CORE_RangePushW, (void *)push_w},
    {NVTX_CBID_CORE_RangePop, (void *)pop},
};
const Served domains[] = {
    {NVTX_CBID_CORE2_DomainMarkEx, (void *)domain_mark},
    {NVTX_CBID_CORE2_DomainRangeStartEx, (void *)domain_start},
    {NVTX_CBID_CORE2_DomainRangeEnd, (void *)domain_end},
    {NVTX_CBID_CORE2_DomainRangePushEx, (void *)domain_push},
    {NVTX_CBID_CORE2_DomainRangePop, (void *)domain_pop},
    {NVTX_CBID_CORE2_DomainRegisterStringA, (void *)register_a},
    {NVTX_CBID_CORE2_DomainRegisterStringW, (void *)register_w},
    {NVTX_CBID_CORE2_DomainCreateA, (void *)create_a},
    {NVTX_CBID_CORE2_DomainCreateW, (void *)create_w},
};

template <size_t count>
void serve(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module,
           const Served (&functions)[count]) {
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (!callbacks->GetModuleFunctionTable(module, &table, &size)) return;
    for (auto &each : functions)
        if (each.number < size && table[each.number])
            *table[each.number] = reinterpret_cast<NvtxFunctionPointer>(each.function);
}
}  // namespace

API int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
    auto *callbacks =
        static_cast<const NvtxExportTableCallbacks *>(export_table(NVTX_ETID_CALLBACKS));
    if (!callbacks) return 0;
    serve(callbacks, NVTX_CB_MODULE_CORE, core);
    serve(callbacks, NVTX_CB_MODULE_CORE2, domains);
    return 1;
}
