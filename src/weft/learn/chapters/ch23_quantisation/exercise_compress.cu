// Write the kernel: a thread takes 4 neighbours of w and stores the two that 2:4 pruning keeps.
//   values[2 * group], values[2 * group + 1]   in the order of their places, as one char2
//   places[group] = place of the first (0 to 3) + 4 * place of the second
// Of equal magnitudes, the first stays.
__global__ void compress(const signed char* w, signed char* values, unsigned char* places,
                         int groups) {}
