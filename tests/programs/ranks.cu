// One rank of several processes: RANK and WORLD_SIZE say which. Rank 0 passes the unique id by a
// file. `ranks FILE NAME` runs one case; mistakes are those of the rank that the case is about.
#include "check.h"

#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <string>
#include <vector>

#define NCCL(call)                                                                         \
    do {                                                                                   \
        ncclResult_t result = (call);                                                      \
        if (result != ncclSuccess) {                                                       \
            printf("%s:%d %s\n", __FILE__, __LINE__, ncclGetErrorString(result));          \
            exit(5);                                                                       \
        }                                                                                  \
    } while (0)

static int number(const char *name) {
    const char *text = getenv(name);
    HOLDS(text);
    return atoi(text);
}
static int rank, ranks;
static std::string shared;  // a path that all ranks know
static ncclComm_t comm;
static cudaStream_t stream;

// The id is complete when its file has its name.
static ncclUniqueId shared_id(const char *path) {
    ncclUniqueId id;
    if (rank == 0) {
        NCCL(ncclGetUniqueId(&id));
        std::string part = std::string(path) + ".part";
        FILE *file = fopen(part.c_str(), "wb");
        HOLDS(file && fwrite(&id, sizeof id, 1, file) == 1 && !fclose(file));
        HOLDS(!rename(part.c_str(), path));
        return id;
    }
    FILE *file;
    while (!(file = fopen(path, "rb"))) usleep(10000);
    HOLDS(fread(&id, sizeof id, 1, file) == 1);
    fclose(file);
    return id;
}

// Waits until all ranks have come here: what follows is limited, the start of processes is not.
static void meet() {
    fclose(fopen((shared + "." + std::to_string(rank)).c_str(), "w"));
    for (int i = 0; i < ranks; i++)
        while (access((shared + "." + std::to_string(i)).c_str(), F_OK)) usleep(10000);
}

template <class T>
struct Array {
    T *x;
    size_t count;
    explicit Array(const std::vector<T> &values) : count(values.size()) {
        CALL(cudaMalloc(&x, count * sizeof(T)));
        CALL(cudaMemcpy(x, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> host() const {
        std::vector<T> out(count);
        CALL(cudaStreamSynchronize(stream));
        CALL(cudaMemcpy(out.data(), x, count * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }
    ~Array() { CALL(cudaFree(x)); }
};
template <class T>
static void expect(const Array<T> &array, const std::vector<double> &values) {
    auto host = array.host();
    for (size_t i = 0; i < values.size(); i++) {
        if (double(float(host[i])) == values[i]) continue;
        printf("rank %d: element %zu is %g instead of %g\n", rank, i, double(float(host[i])),
               values[i]);
        exit(6);
    }
}

// Every type: the sum of rank + 1 over all ranks, and 2 of rank 1 above others.
template <class T>
static void reductions(ncclDataType_t type) {
    double sum = ranks * (ranks + 1) / 2, product = 1;
    for (int i = 1; i <= ranks; i++) product *= i;
    std::vector<T> own(ranks + 3, T(float(rank + 1)));
    Array<T> from(own), to(own);
    NCCL(ncclAllReduce(from.x, to.x, 2, type, ncclSum, comm, stream));
    expect(to, {sum, sum, rank + 1.});
    NCCL(ncclAllReduce(from.x, to.x, 2, type, ncclProd, comm, stream));
    expect(to, {product, product});
    NCCL(ncclAllReduce(from.x, to.x, 1, type, ncclMax, comm, stream));
    expect(to, {double(ranks), product});
    NCCL(ncclAllReduce(from.x, to.x, 1, type, ncclMin, comm, stream));
    expect(to, {1});
    NCCL(ncclAllReduce(from.x, from.x, 1, type, ncclAvg, comm, stream));  // in place
    expect(from, {double(float(T(float(sum / ranks)))), rank + 1.});
    ncclRedOp_t scaled;
    T factor = T(float(rank + 2));
    NCCL(ncclRedOpCreatePreMulSum(&scaled, &factor, type, ncclScalarHostImmediate, comm));
    double total = 0;
    for (int i = 0; i < ranks; i++) total += (i + 1) * (i + 2);
    NCCL(ncclReduceScatter(from.x + 1, to.x, 1, type, scaled, comm, stream));
    expect(to, {total});
    NCCL(ncclRedOpDestroy(scaled, comm));
}

static void types() {
    reductions<signed char>(ncclInt8);
    reductions<unsigned char>(ncclUint8);
    reductions<int>(ncclInt32);
    reductions<unsigned>(ncclUint32);
    reductions<long long>(ncclInt64);
    reductions<unsigned long long>(ncclUint64);
    reductions<float>(ncclFloat32);
    reductions<double>(ncclFloat64);
    reductions<__half>(ncclFloat16);
    reductions<__nv_bfloat16>(ncclBfloat16);
    Array<float> x({1, 2}), factor({rank + 1.f});  // a factor on the device
    ncclRedOp_t scaled;
    NCCL(ncclRedOpCreatePreMulSum(&scaled, factor.x, ncclFloat, ncclScalarDevice, comm));
    NCCL(ncclAllReduce(x.x, x.x, 2, ncclFloat, scaled, comm, stream));
    double sum = ranks * (ranks + 1) / 2;
    expect(x, {sum, 2 * sum});
}
static void collectives() {
    Array<float> from({10.f * rank, 10.f * rank + 1}), to(std::vector<float>(2 * ranks, -1));
    std::vector<double> all, last = {10. * (ranks - 1), 10. * (ranks - 1) + 1};
    for (int i = 0; i < ranks; i++) all.insert(all.end(), {10. * i, 10. * i + 1});
    NCCL(ncclAllGather(from.x, to.x, 2, ncclFloat, comm, stream));
    expect(to, all);
    NCCL(ncclBroadcast(from.x, to.x, 2, ncclFloat, ranks - 1, comm, stream));
    expect(to, last);
    NCCL(ncclReduce(from.x, to.x, 2, ncclFloat, ncclMin, 0, comm, stream));
    expect(to, rank == 0 ? std::vector<double>{0, 1} : last);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    NCCL(ncclGroupStart());
    NCCL(ncclSend(from.x, 2, ncclFloat, next, comm, stream));
    NCCL(ncclRecv(to.x, 2, ncclFloat, before, comm, stream));
    NCCL(ncclGroupEnd());
    expect(to, {10. * before, 10. * before + 1});
    NCCL(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, stream));  // no elements
    cudaStream_t second;  // operations of two streams, under way at once
    CALL(cudaStreamCreate(&second));
    NCCL(ncclAllReduce(from.x, to.x, 1, ncclFloat, ncclMax, comm, stream));
    NCCL(ncclAllReduce(from.x + 1, to.x + 1, 1, ncclFloat, ncclMax, comm, second));
    CALL(cudaStreamSynchronize(second));
    expect(to, last);
}
static void splits() {
    ncclComm_t half, none;
    NCCL(ncclCommSplit(comm, rank % 2, -rank, &half, nullptr));  // in the opposite order
    int size, place;
    NCCL(ncclCommCount(half, &size));
    NCCL(ncclCommUserRank(half, &place));
    HOLDS(size == (ranks + 1 - rank % 2) / 2 && place == size - 1 - rank / 2);
    Array<int> x({rank});
    NCCL(ncclAllReduce(x.x, x.x, 1, ncclInt, ncclSum, half, stream));
    double sum = 0;
    for (int i = rank % 2; i < ranks; i += 2) sum += i;
    expect(x, {sum});
    NCCL(ncclCommSplit(comm, rank ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, nullptr));
    HOLDS((none == nullptr) == (rank != 0));
    NCCL(ncclCommDestroy(none));
    NCCL(ncclCommDestroy(half));
}

// ---- mistakes -----------------------------------------------------------------------------------

// What an operation gives that cannot succeed: its error comes from the communicator.
static void ends_with(ncclResult_t expected) {
    CALL(cudaStreamSynchronize(stream));
    ncclResult_t error;
    NCCL(ncclCommGetAsyncError(comm, &error));
    if (error != expected) {
        printf("rank %d: %s\n", rank, ncclGetErrorString(error));
        exit(7);
    }
    HOLDS(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, stream) == expected);
    HOLDS(strlen(ncclGetLastError(comm)) > 0);
}
static void counts() {
    Array<float> x({1, 2});
    NCCL(ncclAllReduce(x.x, x.x, 1 + rank % 2, ncclFloat, ncclSum, comm, stream));
    ends_with(ncclInvalidUsage);
}
static void kinds() {
    Array<float> x({1, 2});
    NCCL(ncclAllReduce(x.x, x.x, 1, rank ? ncclFloat : ncclInt, ncclSum, comm, stream));
    ends_with(ncclInvalidUsage);
}
static void roots() {
    Array<float> x({1, 2});
    HOLDS(ncclBroadcast(x.x, x.x, 1, ncclFloat, ranks, comm, stream) == ncclInvalidArgument);
    HOLDS(ncclSend(x.x, 1, ncclFloat, -1, comm, stream) == ncclInvalidArgument);
    HOLDS(ncclAllReduce(x.x, x.x, 3, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
    HOLDS(ncclAllReduce(x.x, x.x, 1, ncclNumTypes, ncclSum, comm, stream) == ncclInvalidArgument);
    HOLDS(ncclAllReduce(x.x, x.x, 1, ncclFloat, ncclRedOp_t(9), comm, stream) ==
          ncclInvalidArgument);
    HOLDS(ncclGroupEnd() == ncclInvalidUsage);
    HOLDS(ncclCommSplit(comm, -5, 0, &comm, nullptr) == ncclInvalidArgument);
    NCCL(ncclBroadcast(x.x, x.x, 1, ncclFloat, rank % 2, comm, stream));
    ends_with(ncclInvalidUsage);
}
static void dies() {
    Array<float> x({1, 2});
    if (rank == 1) raise(SIGKILL);
    NCCL(ncclAllReduce(x.x, x.x, 1, ncclFloat, ncclSum, comm, stream));
    ends_with(ncclRemoteError);
}
static void first_dies() {
    Array<float> x({1, 2});
    if (rank == 0) {  // when the other one has begun
        NCCL(ncclRecv(x.x, 1, ncclFloat, 1, comm, stream));
        CALL(cudaStreamSynchronize(stream));
        raise(SIGKILL);
    }
    NCCL(ncclSend(x.x, 1, ncclFloat, 0, comm, stream));
    ncclAllReduce(x.x, x.x, 1, ncclFloat, ncclSum, comm, stream);
    ends_with(ncclRemoteError);
}
static void leaves() {  // rank 0 ends while others still exchange data through it
    Array<float> x({1, 2});
    if (rank == 0) return;
    usleep(300000);
    NCCL(rank == 1 ? ncclSend(x.x, 1, ncclFloat, 2, comm, stream)
                   : ncclRecv(x.x, 1, ncclFloat, 1, comm, stream));
    CALL(cudaStreamSynchronize(stream));
}
static void idle() {
    Array<float> x({1, 2});
    std::string over = shared + ".over";
    if (rank == 1) {  // until rank 0 has waited in vain, however long that takes
        while (access(over.c_str(), F_OK)) usleep(10000);
        return;
    }
    NCCL(ncclAllReduce(x.x, x.x, 1, ncclFloat, ncclSum, comm, stream));
    ends_with(ncclSystemError);
    fclose(fopen(over.c_str(), "w"));
}
static void aborts() {
    Array<float> x({1, 2});
    if (rank == 1) {
        NCCL(ncclRecv(x.x, 1, ncclFloat, 0, comm, stream));  // nobody sends
        NCCL(ncclCommAbort(comm));
        CALL(cudaStreamSynchronize(stream));
        comm = nullptr;
        return;
    }
    NCCL(ncclAllReduce(x.x, x.x, 1, ncclFloat, ncclSum, comm, stream));
    ends_with(ncclRemoteError);
}
static void reuses() {  // what it sends, in another stream; for the sanitizer
    Array<float> x({1, 2}), y({0, 0});
    cudaStream_t second;
    CALL(cudaStreamCreate(&second));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(x.x, 2, ncclFloat, (rank + 1) % ranks, comm, stream));
    NCCL(ncclRecv(y.x, 2, ncclFloat, (rank + ranks - 1) % ranks, comm, stream));
    NCCL(ncclGroupEnd());
    CALL(cudaMemsetAsync(x.x, 0, 2 * sizeof(float), second));
    CALL(cudaStreamSynchronize(second));
    expect(y, {1, 2});
}
static void unasked() {  // the program does not look at the error
    Array<float> x({1, 2});
    NCCL(ncclAllReduce(x.x, x.x, 1 + rank % 2, ncclFloat, ncclSum, comm, stream));
    CALL(cudaStreamSynchronize(stream));
}

struct Case {
    const char *name;
    void (*run)();
};
const Case cases[] = {
    {"types", types},   {"collectives", collectives}, {"splits", splits}, {"counts", counts},
    {"kinds", kinds},   {"roots", roots},             {"dies", dies},     {"first_dies", first_dies},
    {"leaves", leaves}, {"idle", idle},               {"aborts", aborts}, {"unasked", unasked},
    {"reuses", reuses},
};

int main(int count, char **words) {
    HOLDS(count > 2);
    rank = number("RANK"), ranks = number("WORLD_SIZE");
    std::string name = words[2];
    shared = words[1];
    ncclUniqueId id = shared_id(words[1]);
    CALL(cudaSetDevice(0));
    CALL(cudaStreamCreate(&stream));
    if (name == "absent" && rank == ranks - 1) return 0;
    if (name == "idle") meet();
    int claimed = name == "twice" ? 0 : name == "outside" ? rank + 1 : rank;
    int world = name == "sizes" && rank ? ranks + 1 : ranks;
    if (name == "forged") memset(&id, 'x', sizeof id);
    ncclResult_t joined = ncclCommInitRank(&comm, world, id, claimed);
    if (joined) printf("rank %d: %s\n", rank, ncclGetErrorString(joined));
    if (joined) return 0;
    for (auto &each : cases)
        for (int i = 2; i < count; i++)
            if (words[i] == std::string(each.name)) each.run();
    if (comm && name != "leaves") NCCL(ncclCommDestroy(comm));
    printf("rank %d of %d: done\n", rank, ranks);
}
