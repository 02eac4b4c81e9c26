// A communicator as a rank sees it.
#pragma once

#include "hub.h"

namespace weft {

// Shared by the handle and by the work under way, which may outlive it in a graph.
struct Communicator {
    MemberPtr member;
    int ranks, rank, device;
    std::mutex mutex;
    uint64_t operations = 0, splits = 0;     // of all ranks, in the same order
    std::map<int, uint64_t> sent, received;  // messages by peer
    Outcome failure;                         // of an operation; every later call returns it
    bool aborted = false, asked = false;     // does the program know of the failure?
    struct Factor {                          // of a premultiplied sum
        ncclDataType_t type;
        char value[8];
        const void *at;  // null: `value` is the factor; otherwise it is read when the work runs
    };
    std::map<int, Factor> factors;  // by the number of the reduction
    // Remembers and says the failure of an operation.
    void fail(const Outcome &outcome);
    // The failure of an earlier operation, for a call that returns it.
    ncclResult_t error();
    std::string name() const;
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// Says why a call fails, and returns its result.
ncclResult_t refused(const char *call, ncclResult_t result, const std::string &why);

// Calls between ncclGroupStart and ncclGroupEnd of this thread.
struct Group {
    int depth = 0;
    std::vector<Callable<ncclResult_t()>> joins;  // steps of communicators that begin
};
extern thread_local Group group;
// Takes a step that waits for other ranks now, or at the end of the group.
ncclResult_t join_or_defer(Callable<ncclResult_t()> join);
ncclResult_t finish_joins();

}  // namespace weft

struct ncclComm {
    weft::CommunicatorPtr state;
};
