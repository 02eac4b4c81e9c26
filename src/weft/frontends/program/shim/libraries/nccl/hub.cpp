// The hub is a thread of the process that made a unique id. It listens at an abstract Unix socket,
// which has no file and is gone with its process. Each rank of another process has a connection for
// its seat, whose end says that the rank is gone, and one for each call under way; a thread serves
// each. The id is the address of the hub and the number of a clique.
#include "hub.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

namespace weft {

namespace {
constexpr const char *ENDED = "ended without ncclCommDestroy";
constexpr auto GRACE = std::chrono::seconds(10);  // for the answer of a hub that has given up

// ---- sockets ------------------------------------------------------------------------------------

class Socket {
  public:
    explicit Socket(int file) : file(file) {}
    ~Socket() {
        if (file >= 0) close(file);
    }
    Socket(const Socket &) = delete;
    bool write(const void *data, size_t bytes) {
        for (auto *at = static_cast<const char *>(data); bytes;) {
            ssize_t done = send(file, at, bytes, MSG_NOSIGNAL);
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) return false;
            at += done, bytes -= size_t(done);
        }
        return true;
    }
    bool read(void *data, size_t bytes) {
        for (auto *at = static_cast<char *>(data); bytes;) {
            ssize_t done = recv(file, at, bytes, 0);
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) return false;
            at += done, bytes -= size_t(done);
        }
        return true;
    }
    template <class T>
    bool put(const T &value) {
        return write(&value, sizeof value);
    }
    template <class T>
    bool get(T *value) {
        return read(value, sizeof *value);
    }
    bool put(const std::string &text) {
        return put(uint64_t(text.size())) && write(text.data(), text.size());
    }
    bool get(std::string *text) {
        uint64_t size = 0;
        if (!get(&size) || size > LONGEST_TEXT) return false;
        text->resize(size);
        return read(text->data(), size);
    }
    bool put(const Outcome &outcome) { return put(outcome.result) && put(outcome.why); }
    bool get(Outcome *outcome) { return get(&outcome->result) && get(&outcome->why); }
    void limit(std::chrono::milliseconds time) {
        auto us = std::chrono::microseconds(time).count();
        timeval given{time_t(us / 1000000), suseconds_t(us % 1000000)};
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &given, sizeof given);
    }
    const int file;

  private:
    static constexpr uint64_t LONGEST_TEXT = 1 << 16;
};
using SocketPtr = std::unique_ptr<Socket>;

struct Address {
    sockaddr_un name{};
    socklen_t length;
    explicit Address(const std::string &text) {
        name.sun_family = AF_UNIX;  // the first byte is zero: a name outside of the file system
        memcpy(name.sun_path + 1, text.data(), std::min(text.size(), sizeof name.sun_path - 1));
        length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&name); }
};

// The first words of a connection.
struct Hello {
    enum Kind : int { seat, calls } kind;
    int ranks, rank, process;
    int64_t limit_ms;
};

// ---- the hub of this process --------------------------------------------------------------------

// Never destroyed: its threads outlive `main`.
struct Hub {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, CliquePtr> cliques;
    std::string address;
    int listener = -1, process = 0;
    uint64_t made = 0;
    int seats = 0;  // of ranks of other processes, and connections that may be one
    std::map<std::pair<Clique *, int>, CliquePtr> own;  // of ranks of this process
};
Hub &hub() {
    static auto &made = *new Hub;
    return made;
}

// A clique by its name; the first who asks makes it.
CliquePtr clique_of(const std::string &name, int ranks) {
    std::lock_guard<std::mutex> guard(hub().mutex);
    auto &clique = hub().cliques[name];
    if (!clique) clique = std::make_shared<Clique>(std::max(ranks, 1));
    return clique;
}

void serve_seat(Socket &socket, const CliquePtr &clique, const Hello &hello) {
    auto outcome = clique->join(hello.rank, hello.ranks, hello.process);
    bool there = socket.put(outcome);
    if (outcome) return;
    // A rank asks once whether all are there, and says when it leaves.
    char asks, why = 0;
    there = there && socket.get(&asks) &&
            socket.put(clique->wait_for_all(std::chrono::milliseconds(hello.limit_ms))) &&
            socket.get(&why);
    clique->leave(hello.rank, !there ? ENDED : why == 'a' ? ABORTED : LEFT);
}

void serve_calls(Socket &socket, const CliquePtr &clique, const Hello &hello) {
    for (Part part{hello.rank, {}, nullptr, nullptr}; socket.get(&part.call);) {
        std::vector<char> from(part.call.bytes_from(clique->ranks, hello.rank)),
            to(part.call.bytes_to(clique->ranks, hello.rank));
        if (!socket.read(from.data(), from.size())) return;
        part.from = from.data(), part.to = to.data();
        auto meeting = clique->post(part);
        auto outcome = clique->wait(meeting, std::chrono::milliseconds(hello.limit_ms));
        if (!socket.put(outcome) || (!outcome && !socket.write(to.data(), to.size()))) return;
    }
}

bool same_user(int file) {
    ucred other{};
    socklen_t size = sizeof other;
    return !getsockopt(file, SOL_SOCKET, SO_PEERCRED, &other, &size) && other.uid == getuid();
}

// At exit the hub waits for it.
class CountedSeat {
  public:
    CountedSeat() { add(1); }
    ~CountedSeat() { add(-1); }
    CountedSeat(const CountedSeat &) = delete;

  private:
    static void add(int count) {
        std::lock_guard<std::mutex> guard(hub().mutex);
        hub().seats += count;
        hub().changed.notify_all();
    }
};

void serve(int file, std::unique_ptr<CountedSeat> counted) {
    Socket socket(file);
    Hello hello;
    std::string name;
    if (!same_user(file) || !socket.get(&hello) || !socket.get(&name)) return;
    auto clique = clique_of(name, hello.ranks);
    bool seat = hello.kind == Hello::seat;
    if (!seat && (hello.rank < 0 || hello.rank >= clique->ranks)) return;
    if (!seat) counted = nullptr;
    (seat ? serve_seat : serve_calls)(socket, clique, hello);
}

void listen_for_ranks(int listener) {
    for (int file; (file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0 ||
                   errno == EINTR || errno == ECONNABORTED;)
        if (file >= 0) std::thread(serve, file, std::make_unique<CountedSeat>()).detach();
}

// At exit: other processes may still need the hub. Ranks of this process are gone for them.
void linger() {
    auto &h = hub();
    if (h.process != getpid()) return;
    std::unique_lock<std::mutex> guard(h.mutex);
    auto own = std::move(h.own);
    guard.unlock();
    for (auto &seat : own) seat.second->leave(seat.first.second, ENDED);
    guard.lock();
    h.changed.wait_for(guard, limit_of_waits(), [&] { return h.seats == 0; });
}

// A process that forks has no hub: its parent listens.
void close_after_fork() {
    if (hub().listener >= 0) close(hub().listener);
    hub().listener = -1;
}

Outcome system_failure(const std::string &what) {
    return {ncclSystemError, what + ": " + strerror(errno)};
}

Outcome open_hub(Hub &h) {
    if (h.process == getpid()) return {};
    std::random_device random;
    char text[64];
    snprintf(text, sizeof text, "weft-nccl-%d-%08x%08x", getpid(), random(), random());
    Address address(text);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, address.get(), address.length) ||
        listen(listener, SOMAXCONN)) {
        auto outcome = system_failure("no socket for the ranks");
        if (listener >= 0) close(listener);
        return outcome;
    }
    h.address = text, h.listener = listener, h.process = getpid(), h.seats = 0;
    h.cliques.clear();
    std::thread(listen_for_ranks, listener).detach();
    static bool registered = false;
    if (!std::exchange(registered, true)) {
        pthread_atfork(nullptr, nullptr, close_after_fork);
        atexit(linger);
    }
    return {};
}

// ---- ranks of this process ----------------------------------------------------------------------

class LocalPending : public Pending {
  public:
    LocalPending(CliquePtr clique, MeetingPtr joined)
        : clique(std::move(clique)), joined(std::move(joined)) {}
    Outcome wait() override { return clique->wait(joined, limit_of_waits()); }
    const Meeting *meeting() const override { return joined.get(); }

  private:
    CliquePtr clique;
    MeetingPtr joined;
};

class LocalMember : public Member {
  public:
    LocalMember(CliquePtr clique, int rank) : clique(std::move(clique)), rank(rank) {
        std::lock_guard<std::mutex> guard(hub().mutex);
        hub().own[{this->clique.get(), rank}] = this->clique;
    }
    ~LocalMember() override { leave(LEFT); }
    Outcome wait_for_all() override { return clique->wait_for_all(limit_of_waits()); }
    PendingPtr post(const Part &part) override {
        return std::make_unique<LocalPending>(clique, clique->post(part));
    }
    void leave(const char *why) override {
        clique->leave(rank, why);
        std::lock_guard<std::mutex> guard(hub().mutex);
        hub().own.erase({clique.get(), rank});
    }
    MemberPtr other(const std::string &name, int ranks, int rank, Outcome *out) override {
        return take_local_seat(name, ranks, rank, out);
    }

  private:
    CliquePtr clique;
    int rank;
};

// ---- ranks of other processes -------------------------------------------------------------------

// How to reach a hub, and the process that has it.
struct Way {
    std::string address;
    int process;
    Outcome lost() const {
        return {ncclRemoteError, "process " + std::to_string(process) +
                                     ", which made the unique id, does not answer: it has ended"};
    }
    SocketPtr open(const Hello &hello, const std::string &name) const {
        auto out = std::make_unique<Socket>(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        Address to(address);
        if (out->file < 0 || connect(out->file, to.get(), to.length)) return nullptr;
        out->limit(limit_of_waits() + GRACE);
        return out->put(hello) && out->put(name) ? std::move(out) : nullptr;
    }
};

// Connections that wait for the next call: calls of two streams may be under way at once.
struct Connections {
    std::mutex mutex;
    std::vector<SocketPtr> idle;
};

class RemotePending : public Pending {
  public:
    RemotePending(const Way &way, SocketPtr socket, std::shared_ptr<Connections> all, Part part,
                  int ranks)
        : way(way), socket(std::move(socket)), all(std::move(all)), part(part), ranks(ranks) {}
    Outcome wait() override {
        Outcome outcome;
        size_t bytes = part.call.bytes_to(ranks, part.rank);
        if (!socket || !socket->get(&outcome) || (!outcome && !socket->read(part.to, bytes)))
            return way.lost();
        std::lock_guard<std::mutex> guard(all->mutex);
        all->idle.push_back(std::move(socket));
        return outcome;
    }

  private:
    Way way;
    SocketPtr socket;
    std::shared_ptr<Connections> all;
    Part part;
    int ranks;
};

class RemoteMember : public Member {
  public:
    RemoteMember(Way way, Hello hello, const std::string &name, SocketPtr seat)
        : way(std::move(way)), hello(hello), seat(std::move(seat)) {
        this->name = name;
    }
    ~RemoteMember() override { leave(LEFT); }
    Outcome wait_for_all() override {
        Outcome outcome;
        return seat->put('?') && seat->get(&outcome) ? outcome : way.lost();
    }
    PendingPtr post(const Part &part) override {
        auto socket = connection();
        size_t bytes = part.call.bytes_from(hello.ranks, hello.rank);
        if (socket && !(socket->put(part.call) && socket->write(part.from, bytes))) socket = {};
        return std::make_unique<RemotePending>(way, std::move(socket), all, part, hello.ranks);
    }
    void leave(const char *why) override {
        if (seat) seat->put(why == ABORTED ? 'a' : 'l');
        seat = {};
    }
    MemberPtr other(const std::string &name, int ranks, int rank, Outcome *out) override;

  private:
    SocketPtr connection() {
        {
            std::lock_guard<std::mutex> guard(all->mutex);
            if (!all->idle.empty()) {
                auto out = std::move(all->idle.back());
                all->idle.pop_back();
                return out;
            }
        }
        auto asked = hello;
        asked.kind = Hello::calls;
        return way.open(asked, name);
    }
    Way way;
    Hello hello;
    SocketPtr seat;
    std::shared_ptr<Connections> all = std::make_shared<Connections>();
};

MemberPtr take_remote_seat(const Way &way, const std::string &name, int ranks, int rank,
                           Outcome *out) {
    Hello hello{Hello::seat, ranks, rank, getpid(), limit_of_waits().count()};
    auto seat = way.open(hello, name);
    if (!seat || !seat->get(out)) *out = way.lost();
    if (*out) return nullptr;
    return std::make_unique<RemoteMember>(way, hello, name, std::move(seat));
}
MemberPtr RemoteMember::other(const std::string &name, int ranks, int rank, Outcome *out) {
    return take_remote_seat(way, name, ranks, rank, out);
}
}  // namespace

Outcome make_id(ncclUniqueId *id) {
    auto &h = hub();
    std::lock_guard<std::mutex> guard(h.mutex);
    if (auto outcome = open_hub(h)) return outcome;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "weft %d %llu %s", h.process,
             (unsigned long long)++h.made, h.address.c_str());
    return {};
}

MemberPtr take_local_seat(const std::string &name, int ranks, int rank, Outcome *out) {
    auto clique = clique_of(name, ranks);
    *out = clique->join(rank, ranks, getpid());
    if (*out) return nullptr;
    auto member = std::make_unique<LocalMember>(clique, rank);
    member->name = name;
    return member;
}

MemberPtr take_seat(const ncclUniqueId &id, int ranks, int rank, Outcome *out) {
    char text[NCCL_UNIQUE_ID_BYTES + 1] = {}, address[NCCL_UNIQUE_ID_BYTES] = {};
    memcpy(text, id.internal, sizeof id.internal);
    int process;
    unsigned long long number;
    if (sscanf(text, "weft %d %llu %100s", &process, &number, address) != 3) {
        *out = {ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId"};
        return nullptr;
    }
    auto name = std::to_string(number);
    if (process == getpid() && hub().address == address)
        return take_local_seat(name, ranks, rank, out);
    return take_remote_seat({address, process}, name, ranks, rank, out);
}

}  // namespace weft
