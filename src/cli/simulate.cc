// quern simulate: a trace of requests through the engine's scheduler and cache, without a model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/latency_plot.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/step_times_file.h"
#include "engine/simulator.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string trace, cost, plot;
  engine::SimulationOptions simulation;
  std::vector<double> loads = {1};
  std::int64_t limit = 0, trace_block_tokens = 512;
  double client_request_us = 0, client_token_us = 0;
  bool no_prefix_cache = false, json = false;
};

constexpr std::int64_t kMostTokens = 1 << 24;  // of one request
constexpr std::size_t kMostRequests = 16 << 20, kMostBlocks = std::size_t{1} << 30;

using Sessions = std::unordered_map<std::string, std::int64_t>;  // by what the trace calls them

/// A line of a trace: {"timestamp": milliseconds, "input_length": n, "output_length": n, "hash_ids": [...], "session_id": any}.
engine::TracedRequest parse(const std::string& line, engine::Trace& trace, Sessions& sessions) {
  const Json json = Json::parse(line);
  engine::TracedRequest request;
  request.arrival = json.value("timestamp", 0.0) / 1000;
  request.prompt_tokens = json.at("input_length").get<std::int64_t>();
  request.answer_tokens = json.at("output_length").get<std::int64_t>();
  if (!std::isfinite(request.arrival) || request.arrival < 0 || request.prompt_tokens < 1 || request.prompt_tokens > kMostTokens ||
      request.answer_tokens < 0 || request.answer_tokens > kMostTokens)
    throw Error(Code::data_corrupt, "a number is out of range");
  if (const auto id = json.find("session_id"); id != json.end())
    request.session = sessions.try_emplace(id->dump(), static_cast<std::int64_t>(sessions.size())).first->second;
  request.first_block = trace.blocks.size();
  if (const auto ids = json.find("hash_ids"); ids != json.end())
    for (const Json& id : *ids) trace.blocks.push_back(id.get<std::uint64_t>());
  request.blocks = trace.blocks.size() - request.first_block;
  return request;
}

/// Those of one moment stay as they are.
void in_order_of_arrival(std::vector<engine::TracedRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].arrival != requests[b].arrival ? requests[a].arrival < requests[b].arrival : a < b;
  });
  std::vector<engine::TracedRequest> sorted;
  sorted.reserve(requests.size());
  for (const std::size_t i : order) sorted.push_back(requests[i]);
  requests = std::move(sorted);
}

engine::Trace read_trace(const Options& options) {
  std::ifstream file(options.trace);
  if (!file) throw Error(Code::not_found, "cannot open it").at(options.trace);
  engine::Trace trace;
  trace.block_tokens = options.trace_block_tokens;
  Sessions sessions;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      trace.requests.push_back(parse(line, trace, sessions));
    } catch (const std::exception& e) {
      throw Error(Code::data_corrupt, e.what())
          .in(fmt::format("'{}' line {}", options.trace, number))
          .hint(R"(a line is {"timestamp": 0, "input_length": 100, "output_length": 20, "hash_ids": [1]}, times in milliseconds)");
    }
    if (trace.requests.size() > kMostRequests || trace.blocks.size() > kMostBlocks)
      throw Error(Code::resource_exhausted, "the trace has too many requests").at(options.trace);
    if (options.limit > 0 && trace.requests.size() == static_cast<std::size_t>(options.limit)) break;
  }
  if (trace.requests.empty()) throw Error(Code::data_corrupt, "it has no requests").at(options.trace);
  in_order_of_arrival(trace.requests);
  return trace;
}

Json durations(const engine::Durations& d) {
  return {{"p50", d.quantile(0.5)}, {"p90", d.quantile(0.9)}, {"p99", d.quantile(0.99)}, {"largest", d.largest()}};
}

Json to_json(double load, const engine::SimulationResult& r) {
  return {{"load", load},
          {"requests", r.requests},
          {"failed", r.failed},
          {"seconds", r.seconds},
          {"requests_per_s", double(r.requests) / r.seconds},
          {"generated_tokens_per_s", double(r.generated_tokens) / r.seconds},
          {"prompt_tokens", r.prompt_tokens},
          {"cached_tokens", r.cached_tokens},
          {"time_to_first_token_s", durations(r.first_token)},
          {"inter_token_s", durations(r.gap)},
          {"request_s", durations(r.whole)},
          {"most_waiting", r.most_waiting},
          {"steps", r.steps},
          {"scheduler_us_per_step", 1e6 * r.scheduler_seconds / double(std::max<std::int64_t>(r.steps, 1))},
          {"scheduler_us_slowest_step", 1e6 * r.slowest_step}};
}

void simulate(Options options) {
  const engine::Trace trace = read_trace(options);
  engine::StepTimes times = read_step_times(options.cost);
  times.request += 1e-6 * options.client_request_us;
  times.token += 1e-6 * options.client_token_us;
  options.simulation.engine.prefix_cache = !options.no_prefix_cache;
  Interrupts interrupts;
  bool interrupted = false;
  std::vector<std::vector<std::string>> rows = {{"load", "requests/s", "tokens/s", "first token p50", "p99", "gap p50", "p99", "largest",
                                                 "cached", "most waiting", "steps", "scheduler a step"}};
  Json all = Json::array();
  std::vector<LatencyPoint> points;
  for (const double load : options.loads) {
    options.simulation.load = load;
    options.simulation.progress = [&](std::int64_t done) {
      if (stderr_is_terminal()) fmt::print(stderr, "\rload {}: {} of {} requests\x1b[K", load, done, trace.requests.size());
      interrupted = interrupted || interrupts.take();
      return !interrupted;
    };
    const engine::SimulationResult r = engine::simulate(trace, times, options.simulation);
    if (stderr_is_terminal()) fmt::print(stderr, "\r\x1b[K");
    if (interrupted) throw Error(Code::cancelled, "interrupted");
    const auto ms = [](double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); };
    rows.push_back({fmt::format("{:g}", load), fmt::format("{:.2f}", double(r.requests) / r.seconds),
                    fmt::format("{:.1f}", double(r.generated_tokens) / r.seconds), ms(r.first_token.quantile(0.5)),
                    ms(r.first_token.quantile(0.99)), ms(r.gap.quantile(0.5)), ms(r.gap.quantile(0.99)), ms(r.gap.largest()),
                    fmt::format("{:.1f} %", 100 * double(r.cached_tokens) / double(std::max<std::int64_t>(r.prompt_tokens, 1))),
                    std::to_string(r.most_waiting), std::to_string(r.steps),
                    fmt::format("{:.1f} us", 1e6 * r.scheduler_seconds / double(std::max<std::int64_t>(r.steps, 1)))});
    all.push_back(to_json(load, r));
    points.push_back({double(r.requests) / r.seconds, r.first_token.quantile(0.5), r.first_token.quantile(0.99), r.gap.quantile(0.99)});
  }
  if (!options.plot.empty()) write_latency_plot(options.plot, points);
  const std::size_t right[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  print(options.json ? all.dump(2) + "\n" : table(rows, right));
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->simulation.engine.max_sequences = 64;  // as quern serve
  options->simulation.engine.cache_tokens = 262144;
  CLI::App* command =
      app.add_subcommand("simulate", "Predict how a server will do under a trace of requests, in seconds and without a model");
  command
      ->add_option("trace", options->trace, "File of requests, a JSON object a line: timestamp (ms), input_length, output_length, hash_ids")
      ->required()
      ->type_name("TRACE");
  command->add_option("--cost", options->cost, "How long steps take: a file of `quern bench MODEL --cost F.json`")
      ->required()
      ->type_name("F.json");
  command->add_option("--load", options->loads, "Arrivals so many times as fast as in the trace; several are compared")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 1e6))
      ->type_name("X,...");
  const auto number = [&](const char* name, std::int64_t& value, std::int64_t low, std::int64_t high, const char* what) {
    command->add_option(name, value, what)->check(CLI::Range(low, high))->type_name("N")->capture_default_str();
  };
  number("--clients", options->simulation.clients, 0, 1 << 20,
         "So many clients with one request each at a time, whatever the arrivals are; 0: arrivals");
  number("--limit", options->limit, 0, 1 << 30, "The first requests only; 0: all");
  number("--trace-block", options->trace_block_tokens, 1, 1 << 20, "Tokens that a hash id of the trace stands for");
  engine::EngineOptions& engine = options->simulation.engine;
  constexpr std::int64_t kMost = 1 << 30;
  number("--ctx,--context", options->simulation.context_tokens, 1, kMost, "Tokens that a request may have");
  number("--cache-tokens", engine.cache_tokens, 1, kMost, "Tokens in the cache, over all requests");
  number("--window", options->simulation.window, 0, kMost,
         "Tokens that some layers of the model see while others see all; 0: there are none");
  number("--parallel", engine.max_sequences, 1, 1 << 20, "Requests that run at once");
  number("--step-tokens", engine.step_tokens, 1, kMost, "Tokens of a step at most");
  command->add_option("--max-itl-ms", engine.max_itl_ms, "As quern serve has it")->check(CLI::Range(0.0, 1e6))->type_name("MS");
  const auto microseconds = [&](const char* name, double& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::Range(0.0, 1e9))->type_name("US");
  };
  microseconds("--client-token-us", options->client_token_us,
               "Where clients run on the server's own cores: by how much each token that they get delays the server");
  microseconds("--client-request-us", options->client_request_us, "The same of each request that they send");
  command->add_flag("--no-prefix-cache", options->no_prefix_cache, "Forget what ended requests computed");
  command->add_option("--plot", options->plot, "Draw latencies over the load")->type_name("F.svg");
  add_json(*command, options->json);
  add_examples(*command,
               "  quern bench model.gguf --cost cost.json\n"
               "  quern simulate trace.jsonl --cost cost.json --load 0.5,1,2,4 --plot latency.svg\n"
               "  quern simulate trace.jsonl --cost cost.json --clients 16");
  command->callback([options] { simulate(*options); });
}

}  // namespace quern::cli
