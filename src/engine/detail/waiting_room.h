#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quern::engine::detail {

/// What decides when a request gets its turn. Times are in seconds of any one clock.
struct Ticket {
  std::uint64_t arrival = 0;  // order of submission; no two are alike
  double arrived = 0;
  double deadline = std::numeric_limits<double>::infinity();
  std::int64_t priority = 0;  // lower goes sooner
  std::uint64_t tenant = 0;
};

/// The requests that wait, and who goes next: the policy of the scheduler, which knows no clock, no model and no request, so that a
/// simulator can have the same.
///
/// Between tenants shares are fair: the tenant who was served least goes next. Service is counted in tokens, those of answers double, which
/// is about what they take; who had nothing to ask for a while begins with what the least served of the others has had, so that nobody
/// saves up. Source: virtual token counter, Sheng et al. 2024, "Fairness in serving large language models". Among a tenant's own requests
/// the lower priority goes first, but a class that waits, and of which none is admitted, rises by one every kAgeing, so that all come to
/// their turn; then the earlier deadline, then the earlier arrival.
template <class Item>
class WaitingRoom {
 public:
  static constexpr double kAgeing = 10;       // seconds
  static constexpr double kAnswerToken = 2;   // of service; a prompt's token is 1
  static constexpr std::size_t kIdle = 4096;  // tenants remembered who have nothing to ask

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Errors: bad_alloc, and then the item is still the caller's.
  void add(Item& item, const Ticket& ticket) {
    Account& account = accounts_[ticket.tenant];
    Queue& queue = queues_[{ticket.tenant, ticket.priority}];
    std::vector<Entry>& entries = queue.entries;
    if (2 * queue.head > entries.size()) {
      entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(queue.head));
      queue.head = 0;
    }
    if (entries.size() == entries.capacity()) entries.reserve(2 * entries.size() + 8);
    if (account.waiting + account.running == 0) account.service = std::max(account.service, least_active());
    const auto place = std::upper_bound(entries.begin() + static_cast<std::ptrdiff_t>(queue.head), entries.end(), ticket,
                                        [](const Ticket& t, const Entry& e) { return earlier(t, e.ticket); });
    entries.insert(place, Entry{std::move(item), ticket});
    ++account.waiting;
    ++size_;
  }

  /// A request is over, or goes back to wait.
  void left(std::uint64_t tenant) {
    --accounts_[tenant].running;
    forget_idle();
  }
  void charge(std::uint64_t tenant, double service) { accounts_[tenant].service += service; }
  double service(std::uint64_t tenant) const {
    const auto it = accounts_.find(tenant);
    return it == accounts_.end() ? 0 : it->second.service;
  }

  /// Begins a round at this time; next() then gives all that wait in their order.
  void begin(double now) {
    now_ = now;
    current_ = nullptr;
    for (auto& [key, queue] : queues_) queue.cursor = queue.head;
  }
  /// Null when there are no more.
  Item* next() {
    current_ = nullptr;
    Rank best;
    for (auto& [key, queue] : queues_) {
      if (queue.cursor == queue.entries.size()) continue;
      const Rank rank = rank_of(key.first, key.second, queue);
      if (current_ != nullptr && !(rank < best)) continue;
      best = rank;
      current_ = &queue;
    }
    return current_ == nullptr ? nullptr : &current_->entries[current_->cursor++].item;
  }
  /// Takes what next() gave out of the room, to be run.
  Item take() {
    const auto it = current_->entries.begin() + static_cast<std::ptrdiff_t>(--current_->cursor);
    Item item = std::move(it->item);
    Account& account = accounts_[it->ticket.tenant];
    --account.waiting;
    ++account.running;
    --size_;
    if (current_->cursor == current_->head) {
      ++current_->head;  // the rest stays where it is
      ++current_->cursor;
    } else {
      current_->entries.erase(it);
    }
    current_->last_admitted = now_;
    return item;
  }

  /// Gives all to `each(item)` and forgets them.
  template <class Each>
  void clear(Each each) {
    erase_if([&](Item& item, const Ticket&) {
      each(item);
      return true;
    });
  }
  /// Removes all for which `gone(item, ticket)`.
  template <class Gone>
  void erase_if(Gone gone) {
    for (auto it = queues_.begin(); it != queues_.end();) {
      std::vector<Entry>& entries = it->second.entries;
      const auto first = entries.begin() + static_cast<std::ptrdiff_t>(it->second.head);
      const auto kept = std::remove_if(first, entries.end(), [&](Entry& e) { return gone(e.item, e.ticket); });
      const auto removed = static_cast<std::size_t>(entries.end() - kept);
      entries.erase(kept, entries.end());
      accounts_[it->first.first].waiting -= static_cast<std::int64_t>(removed);
      size_ -= removed;
      it = entries.size() == it->second.head ? queues_.erase(it) : std::next(it);
    }
    current_ = nullptr;
    forget_idle();
  }

 private:
  struct Entry {
    Item item;
    Ticket ticket;
  };
  struct Queue {
    std::vector<Entry> entries;
    std::size_t head = 0, cursor = 0;  // entries before head have gone
    double last_admitted = -std::numeric_limits<double>::infinity();
  };
  struct Account {
    double service = 0;
    std::int64_t waiting = 0, running = 0;
  };
  struct Rank {
    double service = 0, priority = 0, deadline = 0;
    std::uint64_t arrival = 0;
    bool operator<(const Rank& other) const {
      return std::tie(service, priority, deadline, arrival) < std::tie(other.service, other.priority, other.deadline, other.arrival);
    }
  };
  using Key = std::pair<std::uint64_t, std::int64_t>;  // tenant and priority

  static bool earlier(const Ticket& a, const Ticket& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : a.arrival < b.arrival;
  }

  Rank rank_of(std::uint64_t tenant, std::int64_t priority, const Queue& queue) const {
    const Ticket& t = queue.entries[queue.cursor].ticket;
    const double waits = now_ - std::max(t.arrived, queue.last_admitted);
    return {accounts_.at(tenant).service, static_cast<double>(priority) - std::floor(std::max(waits, 0.0) / kAgeing), t.deadline,
            t.arrival};
  }

  /// What the least served of those who want something has had; of nobody, what the last of them had.
  double least_active() {
    std::optional<double> least;
    for (const auto& [tenant, account] : accounts_)
      if (account.waiting + account.running > 0) least = std::min(least.value_or(account.service), account.service);
    if (least) floor_ = std::max(floor_, *least);
    return floor_;
  }

  /// Those who are owed nothing and owe nothing need not be remembered; of very many, neither.
  void forget_idle() {
    if (accounts_.size() <= 1) return;
    const double floor = least_active();
    const bool many = accounts_.size() > kIdle;
    std::erase_if(accounts_, [&](const auto& entry) {
      return entry.second.waiting + entry.second.running == 0 && (many || entry.second.service <= floor);
    });
  }

  std::map<Key, Queue> queues_;
  std::unordered_map<std::uint64_t, Account> accounts_;
  std::size_t size_ = 0;
  Queue* current_ = nullptr;
  double now_ = 0, floor_ = 0;
};

}  // namespace quern::engine::detail
