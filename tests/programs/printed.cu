// Prints without an include of its own: cuSPARSE's header includes C's, as NVIDIA's does.
#include <cusparse.h>

int main() {
    fprintf(stdout, "printed\n");
}
