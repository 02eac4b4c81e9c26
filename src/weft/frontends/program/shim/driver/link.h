// The options of the driver's compiler and linker that ask for messages.
#pragma once

#include <cuda.h>

#include "../link_inputs.h"

namespace weft {

// The buffers for messages among the options of a module or a link.
class JitLogs {
  public:
    JitLogs() = default;
    // The arrays are the program's: sizes are written back to `values`.
    JitLogs(unsigned count, CUjit_option *options, void **values);
    // Fills the buffers with what was received. Without a buffer for errors they are printed.
    void write();
    static void receive(void *logs, Sent what, const char *text, uint64_t bytes);

  private:
    struct Buffer {
        char *text = nullptr;
        void **bytes = nullptr;  // the room in it, then what is written
        void write(const std::string &message) const;
    };
    Buffer errors, infos;
    bool verbose = false;
    void **time = nullptr;  // of the work, a float in milliseconds
    int64_t begin = now_ns();
    std::string error, info;
};

}  // namespace weft
