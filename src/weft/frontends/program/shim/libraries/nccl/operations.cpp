// Collective operations and messages. A group goes to its streams in two steps: all calls are
// posted, then each waits for the other ranks. So one thread may call for several ranks.
#include <algorithm>
#include <set>

#include "communicator.h"

using namespace weft;

API int weft_frames(void **out, int room);

namespace {
constexpr int MOST_FRAMES = 64;

// A call on its way through a stream.
struct Asked {
    CommunicatorPtr comm;
    cudaStream_t stream;
    Part part;
    const void *factor_at = nullptr;  // of a premultiplied sum whose factor is on the device
    PendingPtr pending = nullptr;
    std::vector<void *> frames = {};  // the program's call, for the sanitizer
};
using AskedPtr = std::shared_ptr<Asked>;
thread_local std::vector<AskedPtr> group_calls;

// The current device of this thread, until it goes out of scope.
class OnDevice {
  public:
    explicit OnDevice(int device) : before(current_device()) { cudaSetDevice(device); }
    ~OnDevice() { cudaSetDevice(before); }

  private:
    int before;
};

// ---- what the sanitizer is told -----------------------------------------------------------------

// Whether data goes from one part of a meeting to another, which then ends after that one began.
bool feeds(const Part &from, const Part &to) {
    switch (to.call.what) {
        case Collective::broadcast: return from.rank == to.call.root;
        case Collective::reduce: return to.rank == to.call.root;
        case Collective::send: return false;
        default: return from.call.what != Collective::receive;
    }
}
void tell(const Asked &asked, const Meeting *meeting) {
    auto &part = asked.part;
    if (meeting)
        for (auto &other : meeting->parts)
            if (other.moment && feeds(other, part)) report(ProgramEvent::work_waits, other.moment);
    int ranks = asked.comm->ranks;
    hooks->accessed(COLLECTIVE_NAMES[int(part.call.what)], uint64_t(part.from),
                    part.call.bytes_from(ranks, part.rank), uint64_t(part.to),
                    part.call.bytes_to(ranks, part.rank), asked.frames.data(),
                    int(asked.frames.size()));
}

// ---- work of streams ----------------------------------------------------------------------------

cudaError_t post(Asked &asked) {
    auto &part = asked.part;
    if (asked.factor_at) memcpy(part.call.factor, asked.factor_at, size_of(part.call.type));
    if (hooks) {
        part.moment = uint64_t(&asked);
        report(ProgramEvent::event_recorded, part.moment, observed(asked.stream));
    }
    asked.pending = asked.comm->member->post(part);
    return cudaSuccess;
}
cudaError_t finish(Asked &asked) {
    auto outcome = asked.pending->wait();
    if (outcome)
        asked.comm->fail(outcome);
    else if (hooks)
        tell(asked, asked.pending->meeting());
    asked.pending = nullptr;
    return cudaSuccess;
}

// The calls of one communicator in a group: its first stream does the work, and waits for the
// others, which wait for it.
struct Share {
    CommunicatorPtr comm;
    std::vector<AskedPtr> calls;
    cudaStream_t leader() const { return calls[0]->stream; }
    std::set<cudaStream_t> others() const {
        std::set<cudaStream_t> out;
        for (auto &call : calls)
            if (call->stream != leader()) out.insert(call->stream);
        return out;
    }
    cudaError_t order(bool before) const {
        cudaEvent_t event;
        for (auto stream : others()) {
            if (auto error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) return error;
            cudaEventRecord(event, before ? stream : leader());
            cudaStreamWaitEvent(before ? leader() : stream, event, 0);
            cudaEventDestroy(event);
        }
        return cudaSuccess;
    }
    cudaError_t submit_each(cudaError_t (*work)(Asked &)) const {
        return submit(leader(), cudaGraphNodeTypeKernel, [calls = calls, work] {
            for (auto &call : calls) work(*call);
            return cudaSuccess;
        });
    }
};
std::vector<Share> shares(const std::vector<AskedPtr> &calls) {
    std::vector<Share> out;
    for (auto &call : calls) {
        auto found = std::find_if(out.begin(), out.end(),
                                  [&](auto &share) { return share.comm == call->comm; });
        if (found == out.end()) found = out.insert(out.end(), Share{call->comm, {}});
        found->calls.push_back(call);
    }
    return out;
}
ncclResult_t submit_group(const std::vector<AskedPtr> &calls) {
    if (broken()) return ncclUnhandledCudaError;
    auto all = shares(calls);
    for (auto &share : all) {
        OnDevice here(share.comm->device);
        if (share.order(true) || share.submit_each(post)) return ncclUnhandledCudaError;
    }
    for (auto &share : all) {
        OnDevice here(share.comm->device);
        if (share.submit_each(finish) || share.order(false)) return ncclUnhandledCudaError;
    }
    return ncclSuccess;
}

// ---- calls --------------------------------------------------------------------------------------

// The reason why a rank cannot make this call; empty for none.
std::string mistake(const Communicator &comm, const Call &call) {
    if (!size_of(call.type)) return "no type of NCCL has number " + std::to_string(call.type);
    if (call.op < 0 || call.op > PREMULTIPLIED)
        return "no reduction has number " + std::to_string(call.op);
    if (call.root < 0 || call.root >= comm.ranks)
        return std::string(call.is_message() ? "peer " : "root ") + std::to_string(call.root) +
               ": 0 to " + std::to_string(comm.ranks - 1) + " are allowed";
    return "";
}
// Replaces the number of a premultiplied sum of this communicator by what it stands for.
bool resolve(Communicator &comm, Call *call, const void **factor_at, std::string *why) {
    if (call->op < ncclNumOps) return true;
    auto found = comm.factors.find(call->op);
    if (found == comm.factors.end()) {
        *why = "reduction " + std::to_string(call->op) + " is none of this communicator";
        return false;
    }
    if (found->second.type != call->type) {
        *why = "the premultiplied sum is of another type than the elements";
        return false;
    }
    memcpy(call->factor, found->second.value, sizeof call->factor);
    *factor_at = found->second.at;
    call->op = PREMULTIPLIED;
    return true;
}

ncclResult_t ask(Call call, const void *from, void *to, ncclComm_t handle, cudaStream_t stream) {
    const char *name = COLLECTIVE_NAMES[int(call.what)];
    if (!handle) return refused(name, ncclInvalidArgument, "a null communicator");
    auto comm = handle->state;
    if (auto error = comm->error()) return error;
    std::string why;
    const void *factor_at = nullptr;
    if (resolve(*comm, &call, &factor_at, &why)) why = mistake(*comm, call);
    if (!why.empty()) return refused(name, ncclInvalidArgument, comm->name() + ": " + why);
    size_t reads = call.bytes_from(comm->ranks, comm->rank),
           writes = call.bytes_to(comm->ranks, comm->rank);
    if ((reads && check_range(name, from, reads, true)) ||
        (writes && check_range(name, to, writes, true)))
        return refused(name, ncclInvalidArgument, comm->name() + ": its memory, see above");
    call.number = !call.is_message()                ? comm->operations++
                  : call.what == Collective::send ? comm->sent[call.root]++
                                                  : comm->received[call.root]++;
    auto asked = std::make_shared<Asked>(Asked{comm, stream, {comm->rank, call, from, to}});
    asked->factor_at = factor_at;
    if (hooks) {
        asked->frames.resize(MOST_FRAMES);
        asked->frames.resize(weft_frames(asked->frames.data(), MOST_FRAMES));
    }
    if (!group.depth) return submit_group({asked});
    group_calls.push_back(asked);
    return ncclSuccess;
}
ncclResult_t collective(Collective what, const void *from, void *to, size_t count,
                        ncclDataType_t type, int op, int root, ncclComm_t comm,
                        cudaStream_t stream) {
    return ask({what, type, count, op, root}, from, to, comm, stream);
}
}  // namespace

API ncclResult_t ncclGroupStart() {
    group.depth++;
    return ncclSuccess;
}
API ncclResult_t ncclGroupEnd() {
    if (group.depth == 0)
        return refused("ncclGroupEnd", ncclInvalidUsage, "no ncclGroupStart before it");
    if (group.depth > 1) {
        group.depth--;
        return ncclSuccess;
    }
    auto error = finish_joins();
    group.depth = 0;
    auto calls = std::move(group_calls);
    group_calls.clear();
    return error ? error : submit_group(calls);
}

// `residence` says whether the factor is read now or by the work.
API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *factor, ncclDataType_t type,
                                          ncclScalarResidence_t residence, ncclComm_t comm) {
    if (!op || !factor || !comm || !size_of(type))
        return refused("ncclRedOpCreatePreMulSum", ncclInvalidArgument,
                       "a null argument, or a type that NCCL does not have");
    auto &factors = comm->state->factors;
    int number = factors.empty() ? int(ncclNumOps) : factors.rbegin()->first + 1;
    auto &made = factors[number];
    made = {type, {}, residence == ncclScalarDevice ? factor : nullptr};
    if (!made.at) memcpy(made.value, factor, size_of(type));
    *op = ncclRedOp_t(number);
    return ncclSuccess;
}
API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    if (!comm || !comm->state->factors.erase(int(op)))
        return refused("ncclRedOpDestroy", ncclInvalidArgument,
                       "no reduction of this communicator has this number");
    return ncclSuccess;
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
    return collective(Collective::send, from, nullptr, count, type, 0, peer, comm, stream);
}
API ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
    return collective(Collective::receive, nullptr, to, count, type, 0, peer, comm, stream);
}
