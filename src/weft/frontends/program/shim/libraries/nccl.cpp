// NCCL between the GPUs of one process. The last rank that calls an operation performs it.
#include <nccl.h>

#include <condition_variable>
#include <set>

#include "../standard.h"
#include "../weft.h"
#include "reduce.h"

using namespace weft;

namespace {
enum class Collective { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send };

// The arguments of one rank in an operation.
struct Part {
    int rank;
    const void *from;
    void *to;
};
// One operation, or one message: complete when all its parts are there.
struct Meeting {
    Collective what;
    size_t count, needed;
    ncclDataType_t type;
    int op, root;
    std::vector<Part> parts;
    bool done = false;
};
using MeetingPtr = std::shared_ptr<Meeting>;

// The ranks that work together.
struct Clique {
    explicit Clique(int n) : ranks(n) {}
    int ranks;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, MeetingPtr> meetings;  // those that some rank has asked for
    bool aborted = false;
};
using CliquePtr = std::shared_ptr<Clique>;
}  // namespace

struct ncclComm {
    CliquePtr clique;
    int rank, device;
    size_t operations = 0;                 // of all ranks, in the same order
    std::map<int, size_t> sent, received;  // messages by peer
};

namespace {
std::mutex cliques_mutex;
std::map<uint64_t, CliquePtr> cliques;
uint64_t next_clique = 0;

struct Asked {
    ncclComm_t comm;
    cudaStream_t stream;
    std::string key;
    Meeting meeting;
    Part part;
};
thread_local int group_depth = 0;
thread_local std::vector<Asked> group_calls;

size_t size_of(ncclDataType_t type) {
    constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return unsigned(type) < ncclNumTypes ? sizes[type] : 0;
}

// ---- reductions ---------------------------------------------------------------------------------

template <class T, class Read, class Write>
void reduce_as(const Meeting &m, size_t first, size_t count, void *to, Read read, Write write) {
    for (size_t i = 0; i < count; i++) {
        T total = read(m.parts[0].from, first + i);
        for (size_t rank = 1; rank < m.parts.size(); rank++)
            total = combined(total, read(m.parts[rank].from, first + i), m.op);
        if (m.op == reduce_average) total = total / T(m.parts.size());
        write(to, i, total);
    }
}
template <class T>
void reduce_plain(const Meeting &m, size_t first, size_t count, void *to) {
    reduce_as<T>(
        m, first, count, to, [](const void *p, size_t i) { return static_cast<const T *>(p)[i]; },
        [](void *p, size_t i, T value) { static_cast<T *>(p)[i] = value; });
}
template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void reduce_small(const Meeting &m, size_t first, size_t count, void *to) {
    reduce_as<float>(
        m, first, count, to,
        [](const void *p, size_t i) { return widen(static_cast<const uint16_t *>(p)[i]); },
        [](void *p, size_t i, float value) { static_cast<uint16_t *>(p)[i] = narrow(value); });
}
using Reduce = void (*)(const Meeting &, size_t, size_t, void *);
constexpr Reduce REDUCES[] = {
    reduce_plain<int8_t>,   reduce_plain<uint8_t>, reduce_plain<int32_t>,
    reduce_plain<uint32_t>, reduce_plain<int64_t>, reduce_plain<uint64_t>,
    reduce_small<half_to_float, float_to_half>,    reduce_plain<float>,
    reduce_plain<double>,   reduce_small<bfloat_to_float, float_to_bfloat>};

std::vector<char> reduced(const Meeting &m, size_t count) {
    std::vector<char> out(count * size_of(m.type));
    REDUCES[m.type](m, 0, count, out.data());
    return out;
}

// All parts are there; results are complete before the first is written, since a rank may work in
// place.
void perform(Meeting &m) {
    std::sort(m.parts.begin(), m.parts.end(),
              [](const Part &a, const Part &b) { return a.rank < b.rank; });
    size_t bytes = m.count * size_of(m.type), ranks = m.parts.size();
    std::vector<char> result;
    switch (m.what) {
        case Collective::all_reduce:
            result = reduced(m, m.count);
            for (auto &part : m.parts) memcpy(part.to, result.data(), bytes);
            break;
        case Collective::reduce:
            result = reduced(m, m.count);
            memcpy(m.parts[m.root].to, result.data(), bytes);
            break;
        case Collective::broadcast:
            for (auto &part : m.parts) memmove(part.to, m.parts[m.root].from, bytes);
            break;
        case Collective::all_gather:
            for (auto &part : m.parts) {
                auto *from = static_cast<const char *>(part.from);
                result.insert(result.end(), from, from + bytes);
            }
            for (auto &part : m.parts) memcpy(part.to, result.data(), result.size());
            break;
        case Collective::reduce_scatter:
            result = reduced(m, ranks * m.count);
            for (size_t i = 0; i < ranks; i++)
                memcpy(m.parts[i].to, result.data() + i * bytes, bytes);
            break;
        case Collective::send: {
            auto &a = m.parts[0], &b = m.parts[1];
            memmove(a.to ? a.to : b.to, a.to ? b.from : a.from, bytes);
        }
    }
}

// ---- meetings -----------------------------------------------------------------------------------

// Brings all calls of a group to their meetings, then waits for the other ranks.
cudaError_t meet(const std::vector<Asked> &calls) {
    std::vector<MeetingPtr> joined;
    for (auto &call : calls) {
        auto &clique = *call.comm->clique;
        std::lock_guard<std::mutex> guard(clique.mutex);
        auto &meeting = clique.meetings[call.key];
        if (!meeting) meeting = std::make_shared<Meeting>(call.meeting);
        joined.push_back(meeting);
        meeting->parts.push_back(call.part);
        if (meeting->parts.size() < meeting->needed) continue;
        perform(*meeting);
        meeting->done = true;
        clique.meetings.erase(call.key);
        clique.changed.notify_all();
    }
    for (size_t i = 0; i < calls.size(); i++) {
        auto &clique = *calls[i].comm->clique;
        std::unique_lock<std::mutex> lock(clique.mutex);
        clique.changed.wait(lock, [&] { return joined[i]->done || clique.aborted; });
    }
    return cudaSuccess;
}

// The work of a group is in the first stream; the others wait for it, and it waits for them.
ncclResult_t submit_group(std::vector<Asked> calls) {
    if (calls.empty()) return ncclSuccess;
    if (broken()) return ncclUnhandledCudaError;
    cudaStream_t leader = calls[0].stream;
    std::set<cudaStream_t> others;
    for (auto &call : calls)
        if (call.stream != leader) others.insert(call.stream);
    cudaEvent_t event;
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) return ncclUnhandledCudaError;
    for (auto stream : others) {
        cudaEventRecord(event, stream);
        cudaStreamWaitEvent(leader, event, 0);
    }
    auto error = submit(leader, cudaGraphNodeTypeKernel, [calls] { return meet(calls); });
    cudaEventRecord(event, leader);
    for (auto stream : others) cudaStreamWaitEvent(stream, event, 0);
    cudaEventDestroy(event);
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ask(Asked call) {
    if (group_depth) {
        group_calls.push_back(std::move(call));
        return ncclSuccess;
    }
    return submit_group({std::move(call)});
}

ncclResult_t collective(Collective what, const void *from, void *to, size_t count,
                        ncclDataType_t type, int op, int root, ncclComm_t comm,
                        cudaStream_t stream) {
    if (!comm || !size_of(type) || unsigned(op) >= ncclNumOps) return ncclInvalidArgument;
    if (root < 0 || root >= comm->clique->ranks) return ncclInvalidArgument;
    auto key = "op " + std::to_string(comm->operations++);
    Meeting meeting{what, count, size_t(comm->clique->ranks), type, op, root, {}};
    return ask({comm, stream, key, meeting, {comm->rank, from, to}});
}

ncclResult_t message(int from_rank, int to_rank, size_t number, const void *from, void *to,
                     size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
    auto key = std::to_string(from_rank) + " to " + std::to_string(to_rank) + " number " +
               std::to_string(number);
    Meeting meeting{Collective::send, count, 2, type, 0, 0, {}};
    return ask({comm, stream, key, meeting, {comm->rank, from, to}});
}
bool is_peer(ncclComm_t comm, int peer, ncclDataType_t type) {
    return comm && peer >= 0 && peer < comm->clique->ranks && size_of(type);
}
}  // namespace

// ---- communicators ------------------------------------------------------------------------------

API ncclResult_t ncclGetVersion(int *version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    std::lock_guard<std::mutex> guard(cliques_mutex);
    memset(id, 0, sizeof *id);
    uint64_t number = ++next_clique;
    memcpy(id->internal, &number, sizeof number);
    return ncclSuccess;
}
API ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
    if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    uint64_t number;
    memcpy(&number, id.internal, sizeof number);
    std::lock_guard<std::mutex> guard(cliques_mutex);
    auto &clique = cliques[number];
    if (!clique) clique = std::make_shared<Clique>(ranks);
    if (clique->ranks != ranks) return ncclInvalidArgument;
    *out = new ncclComm{clique, rank, current_device()};
    return ncclSuccess;
}
API ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *list) {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    auto clique = std::make_shared<Clique>(count);
    std::set<int> used;
    for (int i = 0; i < count; i++) {
        int device = list ? list[i] : i;
        if (device < 0 || device >= devices || !used.insert(device).second) {
            say("ncclCommInitAll: %d ranks need %d GPUs: weft run --gpus %d", count, count, count);
            return ncclInvalidArgument;
        }
    }
    for (int i = 0; i < count; i++) comms[i] = new ncclComm{clique, i, list ? list[i] : i};
    return ncclSuccess;
}
API ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    cudaDeviceSynchronize();  // work under way uses it
    delete comm;
    return ncclSuccess;
}
API ncclResult_t ncclCommAbort(ncclComm_t comm) {
    {
        std::lock_guard<std::mutex> guard(comm->clique->mutex);
        comm->clique->aborted = true;
        comm->clique->changed.notify_all();
    }
    return ncclCommDestroy(comm);
}
API ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error) {
    *error = ncclSuccess;
    return ncclSuccess;
}
API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
    *count = comm->clique->ranks;
    return ncclSuccess;
}
API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
    *device = comm->device;
    return ncclSuccess;
}
API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
    *rank = comm->rank;
    return ncclSuccess;
}
API const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",        "unhandled cuda error", "system error",
                                        "internal error",  "invalid argument",     "invalid usage",
                                        "remote error",    "in progress"};
    return unsigned(result) < 8 ? texts[result] : "unknown result code";
}
API const char *ncclGetLastError(ncclComm_t) { return ""; }
API ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
    return cudaMalloc(memory, bytes) ? ncclUnhandledCudaError : ncclSuccess;
}
API ncclResult_t ncclMemFree(void *memory) {
    return cudaFree(memory) ? ncclUnhandledCudaError : ncclSuccess;
}

// ---- operations ---------------------------------------------------------------------------------

API ncclResult_t ncclGroupStart() {
    group_depth++;
    return ncclSuccess;
}
API ncclResult_t ncclGroupEnd() {
    if (group_depth == 0) return ncclInvalidUsage;
    if (--group_depth) return ncclSuccess;
    return submit_group(std::move(group_calls));
}
API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return collective(Collective::all_reduce, from, to, count, type, op, 0, comm, stream);
}
API ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return collective(Collective::reduce, from, to, count, type, op, root, comm, stream);
}
API ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                               int root, ncclComm_t comm, cudaStream_t stream) {
    return collective(Collective::broadcast, from, to, count, type, 0, root, comm, stream);
}
API ncclResult_t ncclBcast(void *memory, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(memory, memory, count, type, root, comm, stream);
}
API ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream) {
    return collective(Collective::all_gather, from, to, count, type, 0, 0, comm, stream);
}
API ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return collective(Collective::reduce_scatter, from, to, count, type, op, 0, comm, stream);
}
API ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                          ncclComm_t comm, cudaStream_t stream) {
    if (!is_peer(comm, peer, type)) return ncclInvalidArgument;
    return message(comm->rank, peer, comm->sent[peer]++, from, nullptr, count, type, comm, stream);
}
API ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
    if (!is_peer(comm, peer, type)) return ncclInvalidArgument;
    return message(peer, comm->rank, comm->received[peer]++, nullptr, to, count, type, comm,
                   stream);
}
