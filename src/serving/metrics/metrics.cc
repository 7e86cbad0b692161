#include "serving/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace quern::metrics {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = prometheus::Labels;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// vLLM's buckets, in seconds.
const Buckets kFirst = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
const Buckets kGap = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kRequest = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kHttp = {.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120};

/// 1, 2, 5, 10, 20 … up to the context.
Buckets token_buckets(std::int64_t context) {
  Buckets buckets;
  for (double decade = 1;; decade *= 10)
    for (const double step : {1.0, 2.0, 5.0}) {
      if (decade * step > static_cast<double>(context)) return buckets;
      buckets.push_back(decade * step);
    }
}

/// What the engine counts itself, read at each scrape.
std::vector<MetricFamily> families_of(const Snapshot& s, const Labels& labels) {
  std::vector<MetricFamily> all;
  const auto add = [&](const char* name, const char* help, MetricType type, double value, const Labels& more = {}) {
    ClientMetric metric;
    for (const Labels* list : {&labels, &more})
      for (const auto& [key, text] : *list) metric.label.push_back({key, text});
    if (type == MetricType::Gauge) {
      metric.gauge.value = value;
    } else {
      metric.counter.value = value;
    }
    all.push_back({name, help, type, {std::move(metric)}});
  };
  const auto gauge = [&](const char* name, const char* help, double value) { add(name, help, MetricType::Gauge, value); };
  const auto counter = [&](const char* name, const char* help, std::int64_t n) {
    add(name, help, MetricType::Counter, static_cast<double>(n));
  };
  gauge("vllm:num_requests_running", "Requests in the running batch.", static_cast<double>(s.running));
  gauge("vllm:num_requests_waiting", "Requests that wait to be run.", static_cast<double>(s.waiting));
  const auto share = [](std::int64_t used, std::int64_t all) {
    return all == 0 ? 0 : static_cast<double>(used) / static_cast<double>(all);
  };
  gauge("vllm:kv_cache_usage_perc", "Share of the cache of keys and values in use; 1 is all.", share(s.cache_blocks_used, s.cache_blocks));
  if (s.window_blocks > 0)
    gauge("quern:kv_window_cache_usage_perc", "Share in use of the cache of layers that see a window of tokens only.",
          share(s.window_blocks_used, s.window_blocks));
  add("vllm:cache_config_info", "The cache's shape.", MetricType::Gauge, 1,
      {{"block_size", std::to_string(s.block_tokens)}, {"num_gpu_blocks", std::to_string(s.cache_blocks)}});
  counter("vllm:prompt_tokens_total", "Prompt tokens, computed or cached.", s.computed_tokens + s.cached_tokens);
  counter("vllm:prompt_tokens_cached_total", "Prompt tokens that the cache held.", s.cached_tokens);
  counter("vllm:generation_tokens_total", "Tokens generated.", s.generated_tokens);
  counter("vllm:prefix_cache_queries_total", "Prompt tokens looked for in the cache.", s.computed_tokens + s.cached_tokens);
  counter("vllm:prefix_cache_hits_total", "Prompt tokens that the cache held.", s.cached_tokens);
  counter("vllm:spec_decode_num_draft_tokens_total", "Tokens guessed.", s.guessed_tokens);
  counter("vllm:spec_decode_num_accepted_tokens_total", "Guesses that were right.", s.accepted_guesses);
  counter("quern:draft_model_tokens_total", "Tokens guessed by the draft model.", s.drafted_tokens);
  counter("quern:draft_model_accepted_tokens_total", "Guesses of the draft model that were right.", s.accepted_drafts);
  counter("vllm:num_preemptions_total", "Requests sent back to wait for want of cache.", s.preemptions);
  if (s.on_disk) {
    counter("vllm:external_prefix_cache_hits_total", "Tokens whose keys and values were read from disk.",
            s.disk_blocks_read * s.block_tokens);
    counter("quern:kv_disk_blocks_written_total", "Blocks of the cache written to disk.", s.disk_blocks_written);
    counter("quern:kv_disk_errors_total", "Blocks that could not be written, or were damaged.", s.disk_errors);
    gauge("quern:kv_disk_bytes", "Bytes in the folder of the cache on disk, of all processes, as last counted.",
          static_cast<double>(s.disk_bytes));
  }
  counter("quern:engine_steps_total", "Steps of the engine: its heartbeat.", s.steps);
  return all;
}

}  // namespace

struct Metrics::State {
  State(const std::string& model, std::int64_t context, std::function<Snapshot()> read)
      : labels{{"model_name", model}, {"engine", "0"}}, tokens(token_buckets(context)), now(std::move(read)) {}

  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }
  prometheus::Family<prometheus::Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }

  prometheus::Registry registry;
  Labels labels;
  Buckets tokens;
  std::function<Snapshot()> now;

  prometheus::Family<prometheus::Counter>& success = counters("vllm:request_success_total", "Requests that ended, by the reason why.");
  prometheus::Histogram& ttft = histogram("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", kFirst);
  prometheus::Histogram& gap = histogram("vllm:inter_token_latency_seconds", "From one token to the next.", kGap);
  prometheus::Histogram& per_token = histogram("vllm:request_time_per_output_token_seconds", "A request's mean time between tokens.", kGap);
  prometheus::Histogram& total = histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", kRequest);
  prometheus::Histogram& queue = histogram("vllm:request_queue_time_seconds", "Time spent waiting to be run.", kRequest);
  prometheus::Histogram& inference = histogram("vllm:request_inference_time_seconds", "Time spent running.", kRequest);
  prometheus::Histogram& prefill = histogram("vllm:request_prefill_time_seconds", "From the start to the first token.", kRequest);
  prometheus::Histogram& decode = histogram("vllm:request_decode_time_seconds", "From the first token to the last.", kRequest);
  prometheus::Histogram& prompt = histogram("vllm:request_prompt_tokens", "Tokens of a request's prompt.", tokens);
  prometheus::Histogram& generation = histogram("vllm:request_generation_tokens", "Tokens of a request's answer.", tokens);
  prometheus::Histogram& max_tokens = histogram("vllm:request_params_max_tokens", "Tokens asked for at most.", tokens);
  prometheus::Histogram& n = histogram("vllm:request_params_n", "Answers asked for.", {1, 2, 5, 10, 20});
  prometheus::Family<prometheus::Counter>& http = counters("http_requests_total", "HTTP requests answered.");
  prometheus::Family<prometheus::Histogram>& http_time =
      prometheus::BuildHistogram().Name("http_request_duration_seconds").Help("Time to answer an HTTP request.").Register(registry);
};

Metrics::Metrics(const std::string& model, std::int64_t context, std::function<Snapshot()> now)
    : state_(std::make_unique<State>(model, context, std::move(now))) {}
Metrics::~Metrics() = default;

void Metrics::asked(std::int64_t n, std::int64_t max_tokens) {
  state_->n.Observe(static_cast<double>(n));
  if (max_tokens >= 0) state_->max_tokens.Observe(static_cast<double>(max_tokens));
}
void Metrics::first_token(double seconds) { state_->ttft.Observe(seconds); }
void Metrics::next_token(double seconds) { state_->gap.Observe(seconds); }

void Metrics::finished(const Finished& r) {
  Labels labels = state_->labels;
  labels["finished_reason"] = std::string(r.reason);
  state_->success.Add(labels).Increment();
  state_->total.Observe(r.total);
  state_->queue.Observe(r.queue);
  state_->inference.Observe(r.prefill + r.decode);
  state_->prefill.Observe(r.prefill);
  state_->decode.Observe(r.decode);
  state_->prompt.Observe(static_cast<double>(r.prompt_tokens));
  state_->generation.Observe(static_cast<double>(r.generated_tokens));
  if (r.generated_tokens > 1) state_->per_token.Observe(r.decode / static_cast<double>(r.generated_tokens - 1));
}

void Metrics::http(std::string_view route, std::string_view method, int status, double seconds) {
  static constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"};
  const bool known = std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods);  // a client may invent any number
  const Labels labels = {{"handler", route.empty() ? "none" : std::string(route)}, {"method", known ? std::string(method) : "other"}};
  Labels with_status = labels;
  with_status["status"] = std::to_string(status / 100) + "xx";
  state_->http.Add(with_status).Increment();
  state_->http_time.Add(labels, kHttp).Observe(seconds);
}

std::string Metrics::page() const {
  std::vector<MetricFamily> families = state_->registry.Collect();
  std::vector<MetricFamily> of_engine = families_of(state_->now(), state_->labels);
  families.insert(families.end(), std::make_move_iterator(of_engine.begin()), std::make_move_iterator(of_engine.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quern::metrics
