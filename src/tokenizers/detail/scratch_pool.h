#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quern::tokenizers::detail {

/// What calls work with, kept for the next call: each thread that calls at the same time has one of its own. Scratch::trim() gives back
/// what an unusually long text took.
template <class Scratch>
class ScratchPool {
 public:
  class Lease {
   public:
    explicit Lease(ScratchPool& pool) : pool_(pool) {
      {
        const std::lock_guard lock(pool.mutex_);
        if (!pool.kept_.empty()) {
          scratch_ = std::move(pool.kept_.back());
          pool.kept_.pop_back();
        }
      }
      if (!scratch_) scratch_ = std::make_unique<Scratch>();
    }
    ~Lease() {
      scratch_->trim();
      const std::lock_guard lock(pool_.mutex_);
      if (pool_.kept_.size() < kKept) pool_.kept_.push_back(std::move(scratch_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Scratch* operator->() const { return scratch_.get(); }
    Scratch& operator*() const { return *scratch_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  static constexpr std::size_t kKept = 16;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> kept_;
};

}  // namespace quern::tokenizers::detail
