#include "cli/latency_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"

namespace quern::cli {
namespace {

constexpr double kLeft = 70, kTop = 20, kWidth = 620, kHeight = 340, kLeast = 1e-4;

struct Line {
  const char* name;
  const char* color;
  double LatencyPoint::* value;
};
constexpr Line kLines[] = {{"first token, 99 of 100", "#c2571a", &LatencyPoint::first_token_p99},
                           {"first token, median", "#1b6ca8", &LatencyPoint::first_token_p50},
                           {"between tokens, 99 of 100", "#3a7d44", &LatencyPoint::gap_p99}};

std::string text(double x, double y, const char* anchor, std::string_view what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, what);
}

}  // namespace

void write_latency_plot(const std::string& path, std::span<const LatencyPoint> points) {
  double most = 0, low = 1e9, high = kLeast;
  for (const LatencyPoint& p : points) {
    most = std::max(most, p.requests_per_s);
    for (const Line& line : kLines) {
      low = std::min(low, std::max(p.*line.value, kLeast));
      high = std::max(high, p.*line.value);
    }
  }
  const double bottom = std::floor(std::log10(std::min(low, high))), top = std::max(bottom + 1, std::ceil(std::log10(high)));
  const auto x = [&](double load) { return kLeft + kWidth * load / std::max(most, 1e-9) * 0.95; };
  const auto y = [&](double seconds) { return kTop + kHeight * (1 - (std::log10(std::max(seconds, kLeast)) - bottom) / (top - bottom)); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"460\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"720\" height=\"460\" fill=\"white\"/>\n");
  for (double decade = bottom; decade <= top; ++decade) {
    const double at = y(std::pow(10, decade));
    svg += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", kLeft, kLeft + kWidth, at);
    svg += text(kLeft - 6, at + 4, "end", fmt::format("{:g} s", std::pow(10, decade)));
  }
  for (const LatencyPoint& p : points)
    svg += text(x(p.requests_per_s), kTop + kHeight + 16, "middle", fmt::format("{:.3g}", p.requests_per_s));
  svg += text(kLeft + kWidth / 2, kTop + kHeight + 36, "middle", "requests a second");
  double legend = kTop + kHeight + 54;
  for (const Line& line : kLines) {
    std::string path_points;
    for (const LatencyPoint& p : points) path_points += fmt::format("{:.1f},{:.1f} ", x(p.requests_per_s), y(p.*line.value));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path_points, line.color);
    for (const LatencyPoint& p : points)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{:.4g} s</title></circle>\n", x(p.requests_per_s),
                         y(p.*line.value), line.color, p.*line.value);
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n", kLeft, legend - 9, line.color);
    svg += text(kLeft + 16, legend, "start", line.name);
    legend += 15;
  }
  svg += "</svg>\n";
  std::ofstream file(path);
  file << svg;
  file.close();
  if (!file) throw Error(Code::invalid_argument, "cannot write it").at(path);
}

}  // namespace quern::cli
