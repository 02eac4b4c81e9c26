// Write the function in C: one step of training of the network of stage loops, on one core.
//   p   the parameters: w1 [k][h], b1 [h], w2 [h][10], b2 [10], one after the other
//   x   n images of k numbers, t their labels from 0 to 9
// It replaces p by p - rate * (the gradient of the mean loss) and returns the mean loss before
// that. Memory that it allocates it frees.
double step(double* p, const double* x, const int* t, int n, int k, int h, double rate) {
    return 0;
}
