#include "clique.h"

#include <algorithm>

namespace weft {

namespace {
constexpr const char *TYPES[] = {"ncclInt8",   "ncclUint8",  "ncclInt32",   "ncclUint32",
                                 "ncclInt64",  "ncclUint64", "ncclFloat16", "ncclFloat32",
                                 "ncclFloat64", "ncclBfloat16"};
constexpr const char *OPS[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg",
                               "a premultiplied sum"};

std::string listed(const std::vector<int> &ranks) {
    std::string out = ranks.size() == 1 ? "rank " : "ranks ";
    for (size_t i = 0; i < ranks.size(); i++)
        out += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return out;
}
std::string seconds(std::chrono::milliseconds limit) {
    char text[32];
    snprintf(text, sizeof text, "%g s", double(limit.count()) / 1000);
    return text;
}
// The two sides of a message make one meeting; their calls need not be equal.
bool matches(const Call &a, const Call &b) {
    if (a.type != b.type || a.count != b.count) return false;
    if (a.is_message()) return true;
    bool rooted = a.what == Collective::reduce || a.what == Collective::broadcast;
    return a.what == b.what && (!a.reduces() || a.op == b.op) && (!rooted || a.root == b.root);
}
}  // namespace

size_t size_of(ncclDataType_t type) {
    constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return unsigned(type) < std::size(sizes) ? sizes[type] : 0;
}
size_t Call::bytes_from(int ranks, int rank) const {
    size_t bytes = count * size_of(type);
    switch (what) {
        case Collective::reduce_scatter: return ranks * bytes;
        case Collective::receive: return 0;
        case Collective::broadcast: return rank == root ? bytes : 0;
        default: return bytes;
    }
}
size_t Call::bytes_to(int ranks, int rank) const {
    size_t bytes = count * size_of(type);
    switch (what) {
        case Collective::all_gather:
        case Collective::split: return ranks * bytes;
        case Collective::send: return 0;
        case Collective::reduce: return rank == root ? bytes : 0;
        default: return bytes;
    }
}
std::string Call::text() const {
    auto out = std::string(COLLECTIVE_NAMES[int(what)]) + " of " + std::to_string(count) +
               " elements of " + TYPES[type];
    if (reduces()) out += std::string(", ") + OPS[op];
    if (what == Collective::reduce || what == Collective::broadcast)
        out += ", root " + std::to_string(root);
    return out;
}
std::string Call::meeting(int rank) const {
    if (!is_message()) return "operation " + std::to_string(number);
    bool sends = what == Collective::send;
    return "message " + std::to_string(number) + " from rank " +
           std::to_string(sends ? rank : root) + " to rank " + std::to_string(sends ? root : rank);
}

static double limit_in_seconds() {
    constexpr double LONGEST = 1e6;
    const char *text = getenv(LIMIT);
    if (!text) return DEFAULT_LIMIT;
    char *end;
    double limit = strtod(text, &end);
    if (end != text && !*end && limit > 0 && limit <= LONGEST) return limit;
    say("%s is \"%s\": seconds from above 0 to %g are allowed; it is %d now", LIMIT, text, LONGEST,
        DEFAULT_LIMIT);
    return DEFAULT_LIMIT;
}
std::chrono::milliseconds limit_of_waits() {
    static const double limit = limit_in_seconds();
    return std::chrono::milliseconds(int64_t(limit * 1000));
}

// ---- seats --------------------------------------------------------------------------------------

std::string Clique::named(int rank) const {
    return "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
}
void Clique::fail(ncclResult_t result, const std::string &why) {
    if (!broken) broken = {result, why};
    changed.notify_all();
}
Outcome Clique::join(int rank, int ranks_there, int process) {
    Guard guard(mutex);
    auto who = "rank " + std::to_string(rank) + " in process " + std::to_string(process);
    if (ranks_there != ranks)
        fail(ncclInvalidArgument, who + " says that there are " + std::to_string(ranks_there) +
                                      " ranks, others say " + std::to_string(ranks));
    else if (rank < 0 || rank >= ranks)
        fail(ncclInvalidArgument, who + " is out of range: 0 to " + std::to_string(ranks - 1) +
                                      " are allowed");
    else if (seats[rank].process)
        fail(ncclInvalidUsage, who + ": process " + std::to_string(seats[rank].process) +
                                   " has this rank already; give each its own");
    if (broken) return broken;
    seats[rank].process = process;
    changed.notify_all();
    return {};
}
Outcome Clique::wait_for_all(std::chrono::milliseconds limit) {
    Guard guard(mutex);
    auto is_full = [&] {
        return std::all_of(seats.begin(), seats.end(), [](auto &seat) { return seat.process; });
    };
    if (!changed.wait_for(guard, limit, [&] { return broken || is_full(); })) {
        std::vector<int> absent;
        for (int i = 0; i < ranks; i++)
            if (!seats[i].process) absent.push_back(i);
        fail(ncclSystemError, listed(absent) + " of " + std::to_string(ranks) +
                                  " did not join within " + seconds(limit) + " (" + LIMIT +
                                  " sets the limit)");
    }
    return is_full() ? Outcome{} : broken;  // what fails later is for operations to say
}
void Clique::leave(int rank, const char *why) {
    Guard guard(mutex);
    if (seats[rank].gone) return;
    seats[rank].gone = why;
    for (auto &row : meetings) {
        // Its memory may go, too: nobody may read it any more.
        if (has(*row.second, rank))
            fail(ncclRemoteError, named(rank) + " " + why + " during " +
                                      row.second->parts[0].call.text());
        check_present(*row.second);
    }
    changed.notify_all();
}

// ---- meetings -----------------------------------------------------------------------------------

bool Clique::has(const Meeting &meeting, int rank) const {
    return std::any_of(meeting.parts.begin(), meeting.parts.end(),
                       [&](auto &part) { return part.rank == rank; });
}
std::vector<int> Clique::missing(const Meeting &meeting) const {
    auto &first = meeting.parts[0];
    std::vector<int> out;
    for (int rank = 0; rank < ranks; rank++) {
        bool wanted = !first.call.is_message() || rank == first.call.root;
        bool of_itself = first.call.is_message() && rank == first.rank;  // it misses its own call
        if (wanted && (of_itself || !has(meeting, rank))) out.push_back(rank);
    }
    return out;
}
// Fails if a rank that is needed is there no more.
void Clique::check_present(const Meeting &meeting) {
    for (int rank : missing(meeting))
        if (auto *why = seats[rank].gone)
            fail(ncclRemoteError, named(rank) + " (process " + std::to_string(seats[rank].process) +
                                      ") " + why + " before its part in " +
                                      meeting.parts[0].call.text());
}
// Fails if the last part does not fit the first.
void Clique::check_match(const Meeting &meeting) {
    auto &a = meeting.parts[0], &b = meeting.parts.back();
    if (!matches(a.call, b.call))
        fail(ncclInvalidUsage, a.call.meeting(a.rank) + " differs between ranks: rank " +
                                   std::to_string(a.rank) + " calls " + a.call.text() + ", rank " +
                                   std::to_string(b.rank) + " calls " + b.call.text());
}
MeetingPtr Clique::post(const Part &part) {
    Guard guard(mutex);
    auto key = part.call.meeting(part.rank);
    auto &meeting = meetings[key];
    if (!meeting) {
        meeting = std::make_shared<Meeting>();
        meeting->needed = part.call.is_message() ? 2 : size_t(ranks);
    }
    auto joined = meeting;
    joined->parts.push_back(part);
    check_match(*joined);
    check_present(*joined);
    if (broken || joined->parts.size() < joined->needed) return joined;
    std::sort(joined->parts.begin(), joined->parts.end(),
              [](auto &a, auto &b) { return a.rank < b.rank; });
    perform(*joined);
    joined->done = true;
    meetings.erase(key);
    changed.notify_all();
    return joined;
}
Outcome Clique::wait(const MeetingPtr &meeting, std::chrono::milliseconds limit) {
    Guard guard(mutex);
    if (!changed.wait_for(guard, limit, [&] { return meeting->done || broken; })) {
        auto &first = meeting->parts[0];
        fail(ncclSystemError, listed(missing(*meeting)) + " of " + std::to_string(ranks) +
                                  " did not take part in " + first.call.meeting(first.rank) + ", " +
                                  first.call.text() + ", within " + seconds(limit) + " (" + LIMIT +
                                  " sets the limit)");
    }
    return meeting->done ? Outcome{} : broken;
}

}  // namespace weft
