#include "plan/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace quern::plan {
namespace {

constexpr std::int64_t kAlignment = 64;  // a line of cache, and the widest vector

bool provably_at_least(const ir::Dim& a, const ir::Dim& b) {
  const auto low = (a - b).lower_bound();
  return low && *low >= 0;
}

}  // namespace

ir::Dim MemoryPlan::total() const { return std::accumulate(buffers.begin(), buffers.end(), ir::Dim(0)); }

std::vector<int> assign_buffers(std::span<const Lifetime> lifetimes, MemoryPlan& plan) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return std::pair(lifetimes[a].first, a) < std::pair(lifetimes[b].first, b); });

  std::vector<int> buffer_of(lifetimes.size(), -1);
  std::vector<int> busy_until;  // last step that uses each buffer
  for (const int i : order) {
    const Lifetime& l = lifetimes[i];
    const ir::Dim bytes = ceil_div(l.bytes, kAlignment) * kAlignment;
    // Best: a free buffer of the same formula; else the first that certainly fits; else one that certainly is smaller, to be grown.
    int same = -1, fits = -1, grows = -1;
    for (int b = 0; b < static_cast<int>(plan.buffers.size()); ++b) {
      if (busy_until[b] >= l.first) continue;
      if (plan.buffers[b] == bytes) {
        same = b;
        break;
      }
      if (fits < 0 && provably_at_least(plan.buffers[b], bytes)) fits = b;
      if (grows < 0 && provably_at_least(bytes, plan.buffers[b])) grows = b;
    }
    int chosen = same >= 0 ? same : fits >= 0 ? fits : grows;
    if (chosen < 0) {
      chosen = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back(bytes);
      busy_until.push_back(l.last);
    } else if (same < 0 && fits < 0) {
      plan.buffers[chosen] = bytes;
    }
    busy_until[chosen] = std::max(busy_until[chosen], l.last);
    buffer_of[i] = chosen;
  }
  return buffer_of;
}

}  // namespace quern::plan
