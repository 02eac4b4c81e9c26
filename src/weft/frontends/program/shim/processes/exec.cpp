// A program that starts itself again, as those do that give each GPU a process. It has no file that
// the system could start, so `weft` starts it. The linker has the program call these functions in
// place of the system's.
#include "../weft.h"

#include <spawn.h>
#include <unistd.h>

using namespace weft;

static const char *program = nullptr;  // what it is called by: argv[0]
static Array<const char *> command;    // that starts it, but for its arguments

// `words` are the name of the program and the command.
API void weft_starts_by(const char *const *words) {
    program = strdup(*words++);
    for (; *words; words++) command.push_back(strdup(*words));
}

namespace {
using Arguments = char *const *;

bool is_program(const char *path) {
    return program && path && (!strcmp(path, program) || !strcmp(path, "/proc/self/exe"));
}
// The command with the arguments of the program.
class Whole {
  public:
    explicit Whole(Arguments arguments) : words(command) {
        while (*arguments) words.push_back(*arguments++);
        words.push_back(nullptr);
    }
    const char *path() { return words[0]; }
    Arguments all() { return const_cast<Arguments>(words.data()); }

  private:
    Array<const char *> words;
};

// The arguments of a function that takes them one by one, up to a null.
Array<char *> listed(const char *first, va_list rest) {
    Array<char *> out;
    for (auto *word = first; word; word = va_arg(rest, const char *))
        out.push_back(const_cast<char *>(word));
    out.push_back(nullptr);
    return out;
}
}  // namespace

API int __wrap_execve(const char *path, Arguments arguments, Arguments environment) {
    if (!is_program(path)) return execve(path, arguments, environment);
    Whole whole(arguments);
    return execve(whole.path(), whole.all(), environment);
}
API int __wrap_execv(const char *path, Arguments arguments) {
    return __wrap_execve(path, arguments, environ);
}
API int __wrap_execvp(const char *path, Arguments arguments) {
    return is_program(path) ? __wrap_execv(path, arguments) : execvp(path, arguments);
}
API int __wrap_execl(const char *path, const char *first, ...) {
    va_list rest;
    va_start(rest, first);
    auto arguments = listed(first, rest);
    va_end(rest);
    return __wrap_execv(path, arguments.data());
}
API int __wrap_execlp(const char *path, const char *first, ...) {
    va_list rest;
    va_start(rest, first);
    auto arguments = listed(first, rest);
    va_end(rest);
    return __wrap_execvp(path, arguments.data());
}
API int __wrap_posix_spawn(pid_t *process, const char *path,
                           const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                           Arguments arguments, Arguments environment) {
    if (!is_program(path))
        return posix_spawn(process, path, actions, how, arguments, environment);
    Whole whole(arguments);
    return posix_spawn(process, whole.path(), actions, how, whole.all(), environment);
}
API int __wrap_posix_spawnp(pid_t *process, const char *path,
                            const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                            Arguments arguments, Arguments environment) {
    return is_program(path)
               ? __wrap_posix_spawn(process, path, actions, how, arguments, environment)
               : posix_spawnp(process, path, actions, how, arguments, environment);
}
