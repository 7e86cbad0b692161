#pragma once

#include <span>
#include <string>

namespace quern::cli {

/// What requests waited at a load, in seconds.
struct LatencyPoint {
  double requests_per_s, first_token_p50, first_token_p99, gap_p99;
};

/// An SVG of latencies (logarithmic) over the load. Errors: invalid_argument when it cannot be written.
void write_latency_plot(const std::string& path, std::span<const LatencyPoint> points);

}  // namespace quern::cli
