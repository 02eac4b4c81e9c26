// Write the kernel: a thread takes 4 neighbours of w, as a char4, and stores them as a char4.
// The two of the largest magnitude stay, the others become 0. Of equal magnitudes, the first stays.
__global__ void prune(const signed char* w, signed char* p, int groups) {}
