// Preloaded into a compiler: saves the process after it has read the headers of a source, and
// resumes a later process from there.
//
// A compiler whose first file is
//     #include "headers"
//     #include "rest"
// is the same process for all sources with the same headers, up to the opening of "rest". Its
// memory is written to an image at that point. A later process with the same arguments, in which
// everything lies at the same addresses (it must run without address randomisation), takes over
// this memory and opens another "rest". It reads the image before `main`; if the addresses differ,
// it does nothing and reads the headers as usual.
//
//     WEFT_REST=path    the file before which the process is saved
//     WEFT_SAVE=image   where it is saved, or
//     WEFT_RESUME=image what is resumed
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t PAGE = 4096, WORDS = PAGE / 8, STACK = 1 << 16;
constexpr int MOST_REGIONS = 4096, MOST_FILES = 16;
constexpr char MAGIC[16] = "weft headers 1";
char *const HIGH = reinterpret_cast<char *>(0x10000000000);  // where Linux places nothing itself

struct Region {
    uintptr_t begin, end;
    int is_stack;
};

struct File {
    int number, flags;
    off_t offset;
    char path[1024];
};

// The beginning of an image. The pages of its regions follow: of each page a bit for every word
// that is not zero, and these words. Two thirds of a compiler's memory are zeros.
struct Head {
    char magic[16];
    const void *addresses[3];
    uintptr_t end_of_heap;
    rlimit stack;
    ucontext_t *context;
    int regions, files;
    Region region[MOST_REGIONS];
    File file[MOST_FILES];
};

struct Image {
    const Head *head;
    const char *pages;
};

ucontext_t saved;            // of the process at its "rest"
volatile int is_resumed;     // in an image 1
bool is_saved;
Image resuming;

void find_addresses(const void **out) {
    out[0] = dlsym(RTLD_NEXT, "fopen");
    out[1] = &saved;
    out[2] = dlsym(RTLD_DEFAULT, "malloc");
}

int count_threads() {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 0;
    while (dirent *entry = readdir(folder)) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

bool find_files(Head *head) {
    for (int number = 3; number < 256; number++) {
        struct stat status;
        int flags = fcntl(number, F_GETFL);
        if (flags < 0 || fstat(number, &status) || !S_ISREG(status.st_mode)) continue;
        if (head->files == MOST_FILES) return false;
        File *file = &head->file[head->files++];
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        ssize_t length = readlink(link, file->path, sizeof file->path - 1);
        off_t offset = lseek(number, 0, SEEK_CUR);
        // A file that is being written would lack what was written before.
        if (length < 0 || (flags & O_ACCMODE) != O_RDONLY || offset < 0) return false;
        file->number = number, file->flags = flags, file->offset = offset;
    }
    return true;
}

// All memory that the process can write, but for what the kernel maps itself.
bool find_regions(Head *head) {
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) return false;
    char line[1200], how[8];
    bool fits = true;
    while (fits && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        int name = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &begin, &end, how, &name) < 3) continue;
        if (strncmp(how, "rw", 2) || line[name] == '[' && line[name + 1] == 'v') continue;
        if (begin == reinterpret_cast<uintptr_t>(HIGH)) continue;
        fits = how[3] == 'p' && head->regions < MOST_REGIONS;
        int is_stack = !strncmp(line + name, "[stack]", 7);
        if (fits) head->region[head->regions++] = {begin, end, is_stack};
    }
    fclose(maps);
    return fits;
}

bool write_region(FILE *out, const Region &region) {
    uint64_t packed[WORDS / 64 + WORDS];
    for (uintptr_t page = region.begin; page < region.end; page += PAGE) {
        auto words = reinterpret_cast<const uint64_t *>(page);
        size_t count = WORDS / 64;
        memset(packed, 0, count * 8);
        for (size_t i = 0; i < WORDS; i++) {
            if (!words[i]) continue;
            packed[i / 64] |= uint64_t(1) << i % 64;
            packed[count++] = words[i];
        }
        if (fwrite_unlocked(packed, 8, count, out) != count) return false;
    }
    return true;
}

bool write_image(const char *path) {
    void *place = mmap(HIGH, sizeof(Head), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (place != HIGH) return false;
    Head *head = static_cast<Head *>(place);
    memcpy(head->magic, MAGIC, sizeof MAGIC);
    find_addresses(head->addresses);
    bool ok = count_threads() == 1 && find_files(head);
    FILE *out = fopen(path, "w");
    ok = ok && out && !setvbuf(out, nullptr, _IOFBF, 1 << 20);
    // The buffer is there before the regions are listed: a resumed process has it, unused.
    ok = ok && fwrite(head, sizeof *head, 1, out) == 1;
    head->end_of_heap = reinterpret_cast<uintptr_t>(sbrk(0));
    getrlimit(RLIMIT_STACK, &head->stack);
    head->context = &saved;
    ok = ok && find_regions(head);
    for (int i = 0; ok && i < head->regions; i++) ok = write_region(out, head->region[i]);
    ok = ok && !fseek(out, 0, SEEK_SET) && fwrite(head, sizeof *head, 1, out) == 1;
    if (out) ok = !fclose(out) && ok;
    munmap(head, sizeof *head);
    return ok;
}

[[noreturn]] void give_up() {
    syscall(SYS_exit_group, 99);
    __builtin_unreachable();
}

// Runs on a stack of its own and calls nothing but the kernel: all other memory is replaced.
void take_over() {
    const Head *head = resuming.head;
    auto in = reinterpret_cast<const uint64_t *>(resuming.pages);
    syscall(SYS_brk, head->end_of_heap);
    for (int i = 0; i < head->regions; i++) {
        const Region &region = head->region[i];
        size_t size = region.end - region.begin;
        if (region.is_stack) {  // it grows when it is touched, and goes on to do so
            for (uintptr_t page = region.end - PAGE; page >= region.begin; page -= PAGE)
                memset(reinterpret_cast<void *>(page), 0, PAGE);
        } else if (syscall(SYS_mmap, region.begin, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != long(region.begin)) {
            give_up();
        }
        for (uintptr_t page = region.begin; page < region.end; page += PAGE) {
            auto words = reinterpret_cast<volatile uint64_t *>(page);
            const uint64_t *bits = in;
            in += WORDS / 64;
            for (size_t k = 0; k < WORDS / 64; k++)
                for (uint64_t left = bits[k]; left; left &= left - 1)
                    words[k * 64 + __builtin_ctzll(left)] = *in++;
        }
    }
    setcontext(head->context);
    give_up();
}

bool open_files(const Head *head) {
    for (int i = 0; i < head->files; i++) {
        const File &file = head->file[i];
        int again = open(file.path, file.flags);
        if (again < 0) return false;
        if (again != file.number && (dup2(again, file.number) < 0 || close(again))) return false;
        if (lseek(file.number, file.offset, SEEK_SET) != file.offset) return false;
    }
    return true;
}

void resume(const char *path) {
    static ucontext_t start;
    struct stat status;
    const void *addresses[3];
    int image = open(path, O_RDONLY | O_CLOEXEC);
    if (image < 0 || fstat(image, &status) || size_t(status.st_size) < sizeof(Head)) return;
    void *data = mmap(HIGH, status.st_size, PROT_READ,
                      MAP_PRIVATE | MAP_FIXED_NOREPLACE, image, 0);
    close(image);
    char *stack = HIGH + ((status.st_size + PAGE - 1) & ~(PAGE - 1));
    if (data != HIGH || mmap(stack, STACK, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != stack)
        return;
    auto head = static_cast<const Head *>(data);
    find_addresses(addresses);
    if (memcmp(head->magic, MAGIC, sizeof MAGIC)) return;
    if (memcmp(addresses, head->addresses, sizeof addresses)) return;
    if (!open_files(head) || setrlimit(RLIMIT_STACK, &head->stack)) return;
    resuming = {head, HIGH + sizeof(Head)};
    getcontext(&start);
    start.uc_stack.ss_sp = stack;
    start.uc_stack.ss_size = STACK;
    start.uc_link = nullptr;
    makecontext(&start, take_over, 0);
    setcontext(&start);
}

void save(const char *path) {
    is_saved = true;
    is_resumed = 0;
    if (getcontext(&saved) || is_resumed) return;
    is_resumed = 1;
    if (!write_image(path)) unlink(path);
}

__attribute__((constructor)) void begin() {
    if (const char *path = getenv("WEFT_RESUME")) resume(path);
}

}  // namespace

extern "C" FILE *fopen(const char *path, const char *mode) {
    using Open = FILE *(*)(const char *, const char *);
    static const Open next = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "fopen"));
    const char *rest = getenv("WEFT_REST"), *image = getenv("WEFT_SAVE");
    if (rest && image && !is_saved && !strcmp(path, rest)) save(image);
    return next(path, mode);
}
