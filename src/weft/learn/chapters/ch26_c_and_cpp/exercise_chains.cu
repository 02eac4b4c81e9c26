// Write the whole program. Its arguments are n and the number of buckets.
// 1. A kernel with one thread for each node i < n: its key is i * 7919 % 10007. It puts the node at
//    the head of list key % buckets. All lists are empty at first.
// 2. A second kernel with one thread for each bucket walks along its list and writes the sum of the
//    keys plus the square of the number of nodes.
// 3. Add these numbers on the host and print the sum with "%d\n".
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Node {
    int key;
    Node* next;
};

int main(int count, char** arguments) {}
