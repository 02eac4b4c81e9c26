// CUDA arrays: texels in rows and planes, without the tiling of a GPU.
#pragma once

#include "../standard.h"
#include "../watch.h"

namespace weft __attribute__((visibility("default"))) {

// Equal channels of 8, 16 or 32 bits.
struct Format {
    cudaChannelFormatKind kind;
    int bits, channels;
    size_t bytes() const { return size_t(bits) / 8 * channels; }
};
// The format of a descriptor; false for one that no array can have.
bool format_of(const cudaChannelFormatDesc &desc, Format *out);

size_t most_linear_texels(const Format &format);

// The texels of one array or of one level: planes are the slices of a volume, or layers and faces.
struct Level {
    char *data = nullptr;
    size_t pitch = 0, plane = 0;
    int width = 1, height = 1, depth = 1;
};

}  // namespace weft

struct cudaArray {
    cudaChannelFormatDesc desc;
    weft::Format format;
    cudaExtent extent;  // as it was asked for: 0 for a dimension that the array has not
    unsigned flags;
    weft::Level level;
    bool of_mipmap;  // its memory is that of a mipmapped array
};

struct cudaMipmappedArray {
    std::vector<cudaArray> levels;
};

namespace weft __attribute__((visibility("default"))) {
// True if the program has this array; the handle of a freed one is invalid.
bool is_array(const cudaArray *array);
bool is_mipmap(const cudaMipmappedArray *mipmap);
// Texels from a place on, for a copy; `x` counts bytes.
Box box_of(const cudaArray *array, size_t x, size_t y, size_t z);
}  // namespace weft
