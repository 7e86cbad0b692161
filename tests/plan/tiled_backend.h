#pragma once

#include <memory>
#include <string_view>

#include "plan/backend.h"

namespace quern::plan::testing {

/// Runs every node with its op's reference kernel, but cut into as many units as its meaning allows (elements or rows), each of which takes
/// its time: what a fast backend does to the order of things, without its arithmetic.
class TiledBackend final : public Backend {
 public:
  std::string_view name() const override { return "tiled"; }
  std::unique_ptr<Kernel> lower(const ir::Node& node) override;
};

}  // namespace quern::plan::testing
