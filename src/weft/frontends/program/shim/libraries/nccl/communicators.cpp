// Communicators: how they begin, split and end, and what is known of them.
#include "communicator.h"

#include <algorithm>
#include <atomic>
#include <set>

using namespace weft;

API void weft_condemn(const char *why);

namespace weft {

thread_local Group group;
static std::string last_failure;
static std::mutex last_mutex;
static std::atomic<int> unasked{0};  // failures that the program does not know of

static void remember(const std::string &why) {
    std::lock_guard<std::mutex> guard(last_mutex);
    last_failure = why;
}
ncclResult_t refused(const char *call, ncclResult_t result, const std::string &why) {
    say("%s: %s", call, why.c_str());
    remember(why);
    return result;
}
// Runs at exit, before the exit code is settled.
static void condemn_unasked() {
    if (unasked > 0) weft_condemn("an operation of NCCL failed and the program never asked");
}

std::string Communicator::name() const {
    return "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
}
void Communicator::fail(const Outcome &outcome) {
    std::lock_guard<std::mutex> guard(mutex);
    if (failure || aborted) return;
    static const bool registered = !atexit(condemn_unasked);
    failure = outcome;
    unasked += registered;
    remember(outcome.why);
    say("NCCL, %s: %s", name().c_str(), outcome.why.c_str());
}
ncclResult_t Communicator::error() {
    std::lock_guard<std::mutex> guard(mutex);
    if (failure && !std::exchange(asked, true)) unasked--;
    return failure.result;
}

ncclResult_t join_or_defer(Callable<ncclResult_t()> join) {
    if (!group.depth) return join();
    group.joins.push_back(std::move(join));
    return ncclSuccess;
}
// A step may add others. After a failure the rest is left: their ranks fail, too.
ncclResult_t finish_joins() {
    auto error = ncclSuccess;
    for (size_t i = 0; i < group.joins.size() && !error; i++) {
        auto join = group.joins[i];
        error = join();
    }
    group.joins.clear();
    return error;
}
}  // namespace weft

namespace {
// Makes a communicator of a seat, once all others are taken.
ncclResult_t begin(const char *call, ncclComm_t *out, MemberPtr member, int ranks, int rank,
                   const Outcome &outcome) {
    *out = nullptr;
    if (outcome) return refused(call, outcome.result, outcome.why);
    auto state = std::make_shared<Communicator>();
    state->member = std::move(member);
    state->ranks = ranks, state->rank = rank, state->device = current_device();
    *out = new ncclComm{state};
    return join_or_defer([=] {
        auto missing = state->member->wait_for_all();
        return missing ? refused(call, missing.result, state->name() + ": " + missing.why)
                       : ncclSuccess;
    });
}
ncclResult_t end(ncclComm_t comm) {
    comm->state->member->leave(LEFT);
    delete comm;
    return ncclSuccess;
}

// What a rank tells the others when a communicator is split.
struct Choice {
    int64_t color, key;
};
// The ranks of a color in their new order: by key, then by their old rank.
std::vector<int> chosen(const std::vector<Choice> &all, int64_t color) {
    std::vector<int> out;
    for (size_t i = 0; i < all.size(); i++)
        if (all[i].color == color) out.push_back(int(i));
    std::stable_sort(out.begin(), out.end(),
                     [&](int a, int b) { return all[a].key < all[b].key; });
    return out;
}
// The choices of all ranks, on their way.
struct Split {
    explicit Split(const CommunicatorPtr &comm, Choice choice)
        : own(choice), all(comm->ranks), number(comm->splits++) {
        Part part{comm->rank, {Collective::split, ncclInt64, 2}, &own, all.data()};
        part.call.number = comm->operations++;
        pending = comm->member->post(part);
    }
    Choice own;
    std::vector<Choice> all;
    uint64_t number;
    PendingPtr pending;
};
ncclResult_t finish_split(const CommunicatorPtr &comm, Split &split, ncclComm_t *out) {
    if (auto outcome = split.pending->wait()) {
        comm->fail(outcome);
        return comm->error();
    }
    auto color = split.own.color;
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    auto members = chosen(split.all, color);
    int ranks = int(members.size());
    int rank = int(std::find(members.begin(), members.end(), comm->rank) - members.begin());
    auto name = comm->member->name + " split " + std::to_string(split.number) + " color " +
                std::to_string(color);
    Outcome outcome;
    auto member = comm->member->other(name, ranks, rank, &outcome);
    auto error = begin("ncclCommSplit", out, std::move(member), ranks, rank, outcome);
    if (*out) (*out)->state->device = comm->device;
    return error;
}
}  // namespace

API ncclResult_t ncclGetVersion(int *version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    auto outcome = make_id(id);
    return outcome ? refused("ncclGetUniqueId", outcome.result, outcome.why) : ncclSuccess;
}
API ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
    if (ranks < 1)
        return refused("ncclCommInitRank", ncclInvalidArgument,
                       std::to_string(ranks) + " ranks: at least 1 is needed");
    Outcome outcome;
    auto member = take_seat(id, ranks, rank, &outcome);
    return begin("ncclCommInitRank", out, std::move(member), ranks, rank, outcome);
}
// Of the options, all concern speed or calls that do not wait; these wait here.
API ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                        ncclConfig_t *) {
    return ncclCommInitRank(out, ranks, id, rank);
}
API ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *list) {
    static std::atomic<uint64_t> made{0};
    int devices = 0;
    cudaGetDeviceCount(&devices);
    std::set<int> used;
    for (int i = 0; i < count; i++) {
        int device = list ? list[i] : i;
        if (device < 0 || device >= devices || !used.insert(device).second) {
            say("ncclCommInitAll: %d ranks need %d GPUs: weft run --gpus %d", count, count, count);
            return ncclInvalidArgument;
        }
    }
    if (count < 1) return refused("ncclCommInitAll", ncclInvalidArgument, "no GPUs are given");
    auto name = "all " + std::to_string(++made);
    group.depth++;  // none waits before all have their seats
    for (int i = 0; i < count; i++) {
        Outcome outcome;
        auto member = take_local_seat(name, count, i, &outcome);
        begin("ncclCommInitAll", &comms[i], std::move(member), count, i, outcome);
        comms[i]->state->device = list ? list[i] : i;
    }
    return ncclGroupEnd();
}
// The new communicator is there when the call, or its group, ends.
API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                               ncclConfig_t *) {
    if (!comm || !out)
        return refused("ncclCommSplit", ncclInvalidArgument, "a null communicator");
    auto state = comm->state;
    if (auto error = state->error()) return error;
    if (color < NCCL_SPLIT_NOCOLOR)
        return refused("ncclCommSplit", ncclInvalidArgument,
                       state->name() + ": color " + std::to_string(color) +
                           "; 0 or more, or NCCL_SPLIT_NOCOLOR are allowed");
    *out = nullptr;
    auto split = std::make_shared<Split>(state, Choice{color, key});
    return join_or_defer([=] { return finish_split(state, *split, out); });
}
API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    return comm ? ncclSuccess
                : refused("ncclCommFinalize", ncclInvalidArgument, "a null communicator");
}
API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm) return ncclSuccess;
    cudaDeviceSynchronize();  // work under way uses it
    return end(comm);
}
API ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!comm) return ncclSuccess;
    comm->state->error();
    {
        std::lock_guard<std::mutex> guard(comm->state->mutex);
        comm->state->aborted = true;
    }
    comm->state->member->leave(ABORTED);  // what it waits for ends
    cudaDeviceSynchronize();
    return end(comm);
}
API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    if (!comm || !error) return ncclInvalidArgument;
    *error = comm->state->error();
    return ncclSuccess;
}
API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
    *count = comm->state->ranks;
    return ncclSuccess;
}
API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
    *device = comm->state->device;
    return ncclSuccess;
}
API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
    *rank = comm->state->rank;
    return ncclSuccess;
}
API const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",        "unhandled cuda error", "system error",
                                        "internal error",  "invalid argument",     "invalid usage",
                                        "remote error",    "in progress"};
    return unsigned(result) < 8 ? texts[result] : "unknown result code";
}
// The text stays until the next call of this thread.
API const char *ncclGetLastError(ncclComm_t) {
    thread_local std::string text;
    std::lock_guard<std::mutex> guard(last_mutex);
    text = last_failure;
    return text.c_str();
}
API ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
    return cudaMalloc(memory, bytes) ? ncclUnhandledCudaError : ncclSuccess;
}
API ncclResult_t ncclMemFree(void *memory) {
    return cudaFree(memory) ? ncclUnhandledCudaError : ncclSuccess;
}
