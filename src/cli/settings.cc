// The numbers of `quern run` that shape answers: one list for the command line and for /set.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "cli/command.h"
#include "cli/text_run.h"

namespace quern::cli {
namespace {

template <class T>
T parse(const Setting& setting, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  const bool bounded = high < std::numeric_limits<T>::max();
  throw UsageError(fmt::format("{} is '{}'; {} {} is needed", setting.name, text, std::is_integral_v<T> ? "a whole number" : "a number",
                               bounded ? fmt::format("from {} to {}", low, high) : fmt::format("of at least {}", low)));
}

template <auto kMember, class T, T kLow, T kHigh>
constexpr auto set_sampling =
    [](const Setting& setting, TextRunOptions& o, std::string_view text) { o.sampling.*kMember = parse<T>(setting, text, kLow, kHigh); };
template <auto kMember>
constexpr auto get_sampling = [](const TextRunOptions& o) { return fmt::format("{}", o.sampling.*kMember); };

using P = sampling::Parameters;
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

constexpr Setting kSettings[] = {
    {"temp", "--temp", "Temperature; 0: always the most probable token", set_sampling<&P::temperature, double, 0.0, 100.0>,
     get_sampling<&P::temperature>},
    {"top-k", "--top-k", "Choose among the K most probable tokens; 0: all", set_sampling<&P::top_k, std::int32_t, 0, kMost>,
     get_sampling<&P::top_k>},
    {"top-p", "--top-p", "Choose among the best that make up this share; 1: all", set_sampling<&P::top_p, double, 1e-6, 1.0>,
     get_sampling<&P::top_p>},
    {"min-p", "--min-p", "Least share of the best token's probability; 0: any", set_sampling<&P::min_p, double, 0.0, 1.0>,
     get_sampling<&P::min_p>},
    {"repeat-penalty", "--repeat-penalty", "Divide scores of recent tokens by this; 1: off",
     set_sampling<&P::repeat_penalty, double, 0.01, 100.0>, get_sampling<&P::repeat_penalty>},
    {"repeat-window", "--repeat-window", "Last tokens that penalties count; -1: all",
     set_sampling<&P::penalty_window, std::int32_t, -1, kMost>, get_sampling<&P::penalty_window>},
    {"frequency-penalty", "--frequency-penalty", "Taken off a token's score each time it came",
     set_sampling<&P::frequency_penalty, double, -100.0, 100.0>, get_sampling<&P::frequency_penalty>},
    {"presence-penalty", "--presence-penalty", "Taken off the score of a token that came",
     set_sampling<&P::presence_penalty, double, -100.0, 100.0>, get_sampling<&P::presence_penalty>},
    {"seed", "--seed", "The same seed gives the same answer",
     [](const Setting& setting, TextRunOptions& o, std::string_view text) {
       o.sampling.seed = parse<std::uint64_t>(setting, text, 0, std::numeric_limits<std::uint64_t>::max());
     },
     [](const TextRunOptions& o) { return o.sampling.seed ? fmt::format("{}", *o.sampling.seed) : "new each time"; }},
    {"max-tokens", "-n,--max-tokens", "Most tokens of an answer",
     [](const Setting& setting, TextRunOptions& o, std::string_view text) {
       o.max_tokens = parse<std::int64_t>(setting, text, 1, std::int64_t{1} << 31);
     },
     [](const TextRunOptions& o) { return o.max_tokens > 0 ? fmt::format("{}", o.max_tokens) : "the context"; }},
};

}  // namespace

std::span<const Setting> settings() { return kSettings; }

sampling::Parameters chat_sampling() {
  sampling::Parameters p;
  p.temperature = 0.8;
  p.top_k = 40;
  p.top_p = 0.95;
  p.min_p = 0.05;
  return p;
}

}  // namespace quern::cli
