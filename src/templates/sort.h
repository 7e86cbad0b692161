#pragma once

#include <algorithm>
#include <vector>

namespace quern::templates {

/// A stable merge sort. Unlike the standard library's it stays inside its bounds whatever `less` answers (NaN makes Python's order no
/// order) and may be left by an exception.
template <typename T, typename Less>
void sort_stably(T* items, std::size_t size, Less less) {
  std::vector<T> other(items, items + size);
  for (std::size_t width = 1; width < size; width *= 2) {
    for (std::size_t begin = 0; begin < size; begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, size), end = std::min(begin + 2 * width, size);
      std::size_t left = begin, right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool take_right = left == middle || (right < end && less(items[right], items[left]));
        other[to] = take_right ? items[right++] : items[left++];
      }
    }
    std::copy(other.begin(), other.end(), items);
  }
}

}  // namespace quern::templates
