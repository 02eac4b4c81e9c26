// How a rank reaches its clique: directly where its process made the unique id, and over a socket
// in other processes.
#pragma once

#include "clique.h"

namespace weft {

constexpr const char *LEFT = "called ncclCommDestroy", *ABORTED = "called ncclCommAbort";

// A call of this rank on its way.
struct Pending {
    virtual ~Pending() = default;
    virtual Outcome wait() = 0;
    virtual const Meeting *meeting() const { return nullptr; }  // where it is in this process
};
using PendingPtr = std::unique_ptr<Pending>;

// The seat of one rank.
class Member {
  public:
    virtual ~Member() = default;
    virtual Outcome wait_for_all() = 0;
    virtual PendingPtr post(const Part &part) = 0;
    virtual void leave(const char *why) = 0;
    // The same way to another clique of the hub, for a communicator that is split.
    virtual std::unique_ptr<Member> other(const std::string &name, int ranks, int rank,
                                          Outcome *out) = 0;
    std::string name;  // of the clique
};
using MemberPtr = std::unique_ptr<Member>;

// A new name in the hub of this process, which is opened when it is first needed.
Outcome make_id(ncclUniqueId *id);
// Takes a seat in the clique of an id; null where that fails.
MemberPtr take_seat(const ncclUniqueId &id, int ranks, int rank, Outcome *out);
// Takes a seat in a clique of this process alone.
MemberPtr take_local_seat(const std::string &name, int ranks, int rank, Outcome *out);

}  // namespace weft
