// 2:4 sparsity, stored: two values and their places in 2 bits each.
__global__ void compress(const signed char* w, signed char* values, unsigned char* places,
                         int groups) {
    int group = blockIdx.x * 128 + threadIdx.x;
    if (group >= groups) return;
    char4 four = reinterpret_cast<const char4*>(w)[group];
    int value[4] = {four.x, four.y, four.z, four.w}, kept[2], place[2], count = 0;
    for (int i = 0; i < 4; i++) {
        int before = 0;
        for (int j = 0; j < 4; j++) {
            int mine = abs(value[i]), other = abs(value[j]);
            before += other > mine || (other == mine && j < i);
        }
        if (before < 2) {
            kept[count] = value[i];
            place[count++] = i;
        }
    }
    reinterpret_cast<char2*>(values)[group] = make_char2(kept[0], kept[1]);
    places[group] = place[0] + 4 * place[1];
}
