// The ranks of a communicator, and the meetings at which they exchange data. All this is in the
// process that made the communicator's unique id: ranks of other processes take part through it
// (`hub.h`).
#pragma once

#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../../standard.h"
#include "../../watch.h"

namespace weft {

// A result of NCCL, true for a failure, with its reason.
struct Outcome {
    ncclResult_t result = ncclSuccess;
    std::string why;
    explicit operator bool() const { return result != ncclSuccess; }
};

enum class Collective : int { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send,
                              receive, split };
constexpr const char *COLLECTIVE_NAMES[] = {"ncclAllReduce", "ncclReduce",        "ncclBroadcast",
                                            "ncclAllGather", "ncclReduceScatter", "ncclSend",
                                            "ncclRecv",      "ncclCommSplit"};
size_t size_of(ncclDataType_t type);  // 0 for none

// The reduction `ncclRedOpCreatePreMulSum` makes: each rank has a factor of its own.
constexpr int PREMULTIPLIED = ncclNumOps;

// The call of one rank, but for its memory; it is passed between processes as it is.
struct Call {
    Collective what;
    ncclDataType_t type;
    uint64_t count;
    int op = 0, root = 0;  // the other rank of a message
    char factor[8] = {};   // of a premultiplied sum, in the type of the elements
    uint64_t number = 0;   // of this operation, or of this message between its two ranks
    bool is_message() const { return what == Collective::send || what == Collective::receive; }
    bool reduces() const {
        return what == Collective::all_reduce || what == Collective::reduce ||
               what == Collective::reduce_scatter;
    }
    size_t bytes_from(int ranks, int rank) const;
    size_t bytes_to(int ranks, int rank) const;
    std::string text() const;                // "4 elements of ncclFloat32, ncclSum"
    std::string meeting(int rank) const;     // the name of the meeting of which it is a part
};
// What a rank brings to a meeting. `moment` names the start of its work, for the sanitizer.
struct Part {
    int rank;
    Call call;
    const void *from;
    void *to;
    uint64_t moment = 0;
};
// One operation, or one message: complete when all its parts are there.
struct Meeting {
    std::vector<Part> parts;  // in the order of the ranks once it is complete
    size_t needed;
    bool done = false;
};
using MeetingPtr = std::shared_ptr<Meeting>;

// Moves and reduces the data of a complete meeting.
void perform(Meeting &meeting);

class Clique {
  public:
    explicit Clique(int ranks) : ranks(ranks), seats(ranks) {}
    const int ranks;
    // Takes a seat; `wait_for_all` returns when all are taken.
    Outcome join(int rank, int ranks_there, int process);
    Outcome wait_for_all(std::chrono::milliseconds limit);
    // A rank is there no more; whoever needs it is told why.
    void leave(int rank, const char *why);
    MeetingPtr post(const Part &part);
    Outcome wait(const MeetingPtr &meeting, std::chrono::milliseconds limit);

  private:
    struct Seat {
        int process = 0;  // 0: not taken yet
        const char *gone = nullptr;
    };
    using Guard = std::unique_lock<std::mutex>;
    void fail(ncclResult_t result, const std::string &why);
    void check_match(const Meeting &meeting);
    bool has(const Meeting &meeting, int rank) const;
    std::vector<int> missing(const Meeting &meeting) const;
    void check_present(const Meeting &meeting);
    std::string named(int rank) const;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Seat> seats;
    std::map<std::string, MeetingPtr> meetings;  // those that some rank waits in
    Outcome broken;                              // every later call fails with it
};
using CliquePtr = std::shared_ptr<Clique>;

constexpr const char *LIMIT = "WEFT_NCCL_TIMEOUT";
constexpr int DEFAULT_LIMIT = 600;  // seconds: simulated kernels are slow
// How long a rank waits for others.
std::chrono::milliseconds limit_of_waits();

}  // namespace weft
