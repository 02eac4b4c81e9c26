// 2:4 sparsity: each four neighbours keep the two of the largest magnitude.
__global__ void prune(const signed char* w, signed char* p, int groups) {
    int group = blockIdx.x * 128 + threadIdx.x;
    if (group >= groups) return;
    char4 four = reinterpret_cast<const char4*>(w)[group];
    int value[4] = {four.x, four.y, four.z, four.w};
    signed char kept[4];
    for (int i = 0; i < 4; i++) {
        int before = 0;
        for (int j = 0; j < 4; j++) {
            int mine = abs(value[i]), other = abs(value[j]);
            before += other > mine || (other == mine && j < i);
        }
        kept[i] = before < 2 ? value[i] : 0;
    }
    reinterpret_cast<char4*>(p)[group] = make_char4(kept[0], kept[1], kept[2], kept[3]);
}
