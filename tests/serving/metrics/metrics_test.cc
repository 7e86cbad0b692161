#include "serving/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quern::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, the_page_has_what_was_seen_in_the_buckets_that_dashboards_know) {
  Metrics metrics("m\"x", 4096, [] {
    return Snapshot{.running = 3, .cache_blocks = 4, .cache_blocks_used = 1, .computed_tokens = 5, .cached_tokens = 2};
  });
  metrics.first_token(0.03);
  metrics.next_token(0.2);
  metrics.finished(
      {.reason = "stop", .prompt_tokens = 7, .generated_tokens = 3, .total = 1, .queue = 0.25, .prefill = 0.25, .decode = 0.5});
  metrics.http("/v1/models", "GET", 404, 0.001);
  metrics.http("", "INVENTED", 400, 0.001);
  const std::string page = metrics.page();
  const std::string labels = "{engine=\"0\",model_name=\"m\\\"x\"";
  for (const std::string& line :
       {"vllm:num_requests_running" + labels + "} 3\n", "vllm:kv_cache_usage_perc" + labels + "} 0.25\n",
        "vllm:prompt_tokens_total" + labels + "} 7\n", "vllm:prefix_cache_hits_total" + labels + "} 2\n",
        "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"0.02\"} 0\n",
        "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"0.04\"} 1\n",
        "vllm:inter_token_latency_seconds_bucket" + labels + ",le=\"0.2\"} 1\n",
        "vllm:request_time_per_output_token_seconds_sum" + labels + "} 0.25\n",
        "vllm:request_inference_time_seconds_sum" + labels + "} 0.75\n",
        std::string("vllm:request_success_total{engine=\"0\",finished_reason=\"stop\""),
        std::string("http_requests_total{handler=\"/v1/models\",method=\"GET\",status=\"4xx\"} 1\n"), std::string("method=\"other\"")})
    EXPECT_THAT(page, HasSubstr(line));
  EXPECT_THAT(page, Not(HasSubstr("INVENTED"))) << "a client cannot make labels";
}

}  // namespace
}  // namespace quern::metrics
