// The search tree of all tables: see containers.h.
#include "containers.h"

namespace weft {

TreeNode *Tree::find(uint64_t key) const {
    auto *found = at_or_before(key);
    return found && found->key == key ? found : nullptr;
}

TreeNode *Tree::at_or_before(uint64_t key) const {
    TreeNode *found = nullptr;
    for (auto *node = root; node;) {
        if (node->key <= key) found = node;
        node = node->key <= key ? node->right : node->left;
    }
    return found;
}

TreeNode *Tree::after(uint64_t key) const {
    TreeNode *found = nullptr;
    for (auto *node = root; node;) {
        if (node->key > key) found = node;
        node = node->key > key ? node->left : node->right;
    }
    return found;
}

TreeNode *Tree::first() const {
    auto *node = root;
    while (node && node->left) node = node->left;
    return node;
}

// Splits a tree into the nodes below a key and the others.
static void split(TreeNode *tree, uint64_t key, TreeNode **below, TreeNode **others) {
    while (tree) {
        if (tree->key < key) {
            *below = tree, below = &tree->right, tree = tree->right;
        } else {
            *others = tree, others = &tree->left, tree = tree->left;
        }
    }
    *below = *others = nullptr;
}

void Tree::insert(TreeNode *node, uint64_t key) {
    node->key = key;
    node->priority = random = random * 1664525 + 1013904223;
    auto **place = &root;
    while (*place && (*place)->priority >= node->priority)
        place = (*place)->key < key ? &(*place)->right : &(*place)->left;
    split(*place, key, &node->left, &node->right);
    *place = node;
}

TreeNode *Tree::remove(uint64_t key) {
    auto **place = &root;
    while (*place && (*place)->key != key)
        place = (*place)->key < key ? &(*place)->right : &(*place)->left;
    auto *removed = *place;
    if (!removed) return nullptr;
    // The two trees below it are merged: the root of higher priority comes first.
    auto *left = removed->left, *right = removed->right;
    while (left && right) {
        if (left->priority >= right->priority) {
            *place = left, place = &left->right, left = left->right;
        } else {
            *place = right, place = &right->left, right = right->left;
        }
    }
    *place = left ? left : right;
    return removed;
}

}  // namespace weft
