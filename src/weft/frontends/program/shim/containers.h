// Arrays and ordered tables for the core of the library, in place of <vector> and <map> for the
// same reason as `basic.h`: a table of another type is little more code to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <utility>

namespace weft __attribute__((visibility("default"))) {

// Elements in a row, which may be copied and moved.
template <class T>
class Array {
  public:
    Array() = default;
    explicit Array(size_t count) { resize(count); }
    Array(std::initializer_list<T> values) {
        for (auto &value : values) push_back(value);
    }
    Array(const Array &other) {
        for (auto &value : other) push_back(value);
    }
    Array(Array &&other) { swap(other); }
    Array &operator=(Array other) {
        swap(other);
        return *this;
    }
    ~Array() {
        clear();
        free(elements);
    }
    void push_back(T value) {
        if (count == room) grow(2 * room + 4);
        new (elements + count++) T(std::move(value));
    }
    void pop_back() { elements[--count].~T(); }
    void resize(size_t wanted) {
        if (wanted > room) grow(wanted);
        while (count > wanted) pop_back();
        while (count < wanted) new (elements + count++) T();
    }
    void clear() { resize(0); }
    void swap(Array &other) {
        std::swap(elements, other.elements);
        std::swap(count, other.count);
        std::swap(room, other.room);
    }
    T &operator[](size_t i) { return elements[i]; }
    const T &operator[](size_t i) const { return elements[i]; }
    T &back() { return elements[count - 1]; }
    T *data() { return elements; }
    const T *data() const { return elements; }
    size_t size() const { return count; }
    bool empty() const { return !count; }
    T *begin() { return elements; }
    T *end() { return elements + count; }
    const T *begin() const { return elements; }
    const T *end() const { return elements + count; }

  private:
    void grow(size_t wanted) {
        auto *moved = static_cast<T *>(malloc(wanted * sizeof(T)));
        if (!moved) abort();
        for (size_t i = 0; i < count; i++) {
            new (moved + i) T(std::move(elements[i]));
            elements[i].~T();
        }
        free(elements);
        elements = moved, room = wanted;
    }
    T *elements = nullptr;
    size_t count = 0, room = 0;
};

// A node of a search tree that random priorities keep balanced (a treap).
struct TreeNode {
    uint64_t key;
    unsigned priority;
    TreeNode *left, *right;
};
struct Tree {
    TreeNode *root = nullptr;
    unsigned random = 1;
    TreeNode *find(uint64_t key) const;
    TreeNode *at_or_before(uint64_t key) const;  // the last whose key is not larger
    TreeNode *after(uint64_t key) const;         // the first whose key is larger
    TreeNode *first() const;
    void insert(TreeNode *node, uint64_t key);  // there is none of this key yet
    TreeNode *remove(uint64_t key);             // null for none
};

// Values by numbers or addresses, in the order of these.
template <class T>
class Table {
  public:
    struct Row : TreeNode {
        T value{};
    };
    struct Iterator {
        const Tree *tree;
        TreeNode *node;
        Row &operator*() const { return *static_cast<Row *>(node); }
        void operator++() { node = tree->after(node->key); }
        bool operator!=(const Iterator &other) const { return node != other.node; }
    };
    Table() = default;
    Table(const Table &) = delete;
    T *find(uint64_t key) const { return value_of(tree.find(key)); }
    T *find(const void *key) const { return find(uint64_t(key)); }
    Row *at_or_before(uint64_t key) const { return static_cast<Row *>(tree.at_or_before(key)); }
    Row *after(uint64_t key) const { return static_cast<Row *>(tree.after(key)); }
    T &operator[](uint64_t key) {
        if (auto *value = find(key)) return *value;
        auto *made = new Row;
        tree.insert(made, key);
        return made->value;
    }
    T &operator[](const void *key) { return (*this)[uint64_t(key)]; }
    bool erase(uint64_t key) {
        auto *removed = static_cast<Row *>(tree.remove(key));
        delete removed;
        return removed;
    }
    bool erase(const void *key) { return erase(uint64_t(key)); }
    Iterator begin() const { return {&tree, tree.first()}; }
    Iterator end() const { return {&tree, nullptr}; }

  private:
    static T *value_of(TreeNode *node) { return node ? &static_cast<Row *>(node)->value : nullptr; }
    Tree tree;
};

}  // namespace weft
