// quern serve: a language model behind OpenAI's HTTP interface.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "cli/chat_template.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/embedding.h"
#include "engine/engine.h"
#include "engine/text_model.h"
#include "runtime/language_model.h"
#include "serving/auth/keys.h"
#include "serving/http/server.h"
#include "serving/metrics/metrics.h"
#include "serving/openai/service.h"

namespace quern::cli {
namespace {

struct Options {
  std::string model;
  http::ServerOptions http;
  std::vector<std::string> keys, names;
  std::string key_file, chat_template, pooling;
  bool open_to_all = false, no_prefix_cache = false, no_lookup = false, verbose = false;
  std::int64_t drain_s = 30;
  engine::EngineOptions engine{.max_sequences = 64};
  std::int64_t max_queue = 1024, max_of_tenant = 0, kv_disk_bytes = 0;
  runtime::Precision precision = runtime::Precision::fast;
  std::optional<ir::DType> kv_dtype;
  LoadOptions load;
  DraftFlags draft;
};

/// Every stream holds a file descriptor.
void allow_many_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Room for many conversations, but no more than a quarter of what memory is free. Its pages are taken as they are used.
std::int64_t default_cache_tokens(const runtime::LanguageModel& model, std::int64_t context, engine::EngineOptions options) {
  constexpr std::int64_t kWanted = 1 << 18;
  const std::int64_t available = memory().available;
  const auto fits = [&](std::int64_t tokens) {
    options.cache_tokens = tokens;
    return available == 0 || engine::cache_bytes(model, options) <= available / 4;
  };
  std::int64_t low = context, high = std::max(context, kWanted) + 1;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::int64_t time_of(const std::string& path) {
  struct stat of{};
  return ::stat(path.c_str(), &of) == 0 ? static_cast<std::int64_t>(of.st_mtim.tv_sec) : 0;
}

auth::Keys keys_of(const Options& options) {
  auth::Keys keys;
  for (const std::string& key : options.keys) keys.add(key);
  if (const char* key = std::getenv("QUERN_API_KEY"); key != nullptr && *key != '\0') keys.add(key);
  if (!options.key_file.empty()) keys.add_file(options.key_file);
  return keys;
}

/// The key that a request came with; nothing when there is none.
std::string key_of(const http::Request& request) {
  const std::string_view bearer = auth::Keys::bearer(request.header("authorization"));
  for (const std::string_view key : {bearer, request.header("x-api-key"), request.header("api-key")})
    if (!key.empty()) return std::string(key);
  return "";
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

void serve(Options& options) {
  if (file_kind(options.model) == FileKind::onnx) throw UsageError("this is a graph; quern serve takes language models");
  auth::Keys keys = keys_of(options);
  if (keys.empty() && !options.open_to_all && !is_loopback(options.http.host))
    throw UsageError("others could use the server at " + options.http.host + ": give an --api-key, or --no-auth to let anybody");
  allow_many_connections();

  const std::string file = std::filesystem::path(options.model).filename().string();
  const bool terminal = stderr_is_terminal();
  if (terminal) fmt::print(stderr, "loading {} …", printable(file));
  runtime::LanguageOptions load;
  load.precision = options.precision;
  load.kv_dtype = options.kv_dtype;
  options.load.apply(load);
  const auto model = runtime::LanguageModel::load(options.model, load);
  engine::TextModel text = engine::TextModel::from_gguf(model->file());
  if (!options.chat_template.empty()) text.use_template(read_template(options.chat_template));
  options.engine.draft = options.draft.apply(options.precision, options.kv_dtype, options.load);
  const std::int64_t context = options.engine.context_length != 0 ? options.engine.context_length : model->context_length();
  if (options.engine.cache_tokens == 0) options.engine.cache_tokens = default_cache_tokens(*model, context, options.engine);
  options.engine.prefix_cache = !options.no_prefix_cache;
  options.engine.prompt_lookup = !options.no_lookup;
  if (options.kv_disk_bytes > 0 || !options.engine.disk_cache.folder.empty()) {
    engine::DiskCacheOptions& disk = options.engine.disk_cache;
    if (disk.folder.empty()) disk.folder = cache_path("kv");
    if (disk.folder.empty()) throw UsageError("there is no home to keep the cache in: give a --kv-disk-dir");
    if (options.kv_disk_bytes > 0) disk.max_bytes = options.kv_disk_bytes;
    disk.note = [](std::string_view note) { fmt::print(stderr, "quern: note: {}\n", printable(note)); };
  }
  engine::Engine engine(model, text.tokenizer, process_pool(), options.engine);
  if (terminal) fmt::print(stderr, "\r\x1b[K");

  openai::ServiceOptions about;
  about.any_name = options.names.empty();
  about.aliases = options.names;
  about.name = options.names.empty() ? std::filesystem::path(file).stem().string() : options.names.front();
  about.created = time_of(options.model);
  about.version = QUERN_VERSION;
  about.max_waiting = options.max_queue;
  about.max_of_tenant = options.max_of_tenant;
  about.report = [](std::string_view what) { fmt::print(stderr, "quern: note: {}\n", what); };
  if (!keys.empty() || !options.key_file.empty()) about.tenant = key_of;  // otherwise anybody may send any
  about.pooling = options.pooling.empty() ? engine::pooling_of(model->file()) : engine::pooling_named(options.pooling);
  metrics::Metrics metrics(about.name, engine.context_length(),
                           [&engine, block = model->kv_block_tokens(), on_disk = !options.engine.disk_cache.folder.empty()] {
                             const engine::Engine::Statistics s = engine.statistics();
                             return metrics::Snapshot{.running = s.running,
                                                      .waiting = s.waiting,
                                                      .cache_blocks = s.cache_blocks,
                                                      .cache_blocks_used = s.cache_blocks_used,
                                                      .block_tokens = block,
                                                      .window_blocks = s.window_blocks,
                                                      .window_blocks_used = s.window_blocks_used,
                                                      .steps = s.steps,
                                                      .generated_tokens = s.generated_tokens,
                                                      .preemptions = s.preemptions,
                                                      .computed_tokens = s.prompt_tokens,
                                                      .cached_tokens = s.cached_prompt_tokens,
                                                      .guessed_tokens = s.guessed_tokens,
                                                      .accepted_guesses = s.accepted_guesses,
                                                      .drafted_tokens = s.drafted_tokens,
                                                      .accepted_drafts = s.accepted_drafts,
                                                      .on_disk = on_disk,
                                                      .disk_blocks_read = s.disk_blocks_read,
                                                      .disk_blocks_written = s.disk_blocks_written,
                                                      .disk_errors = s.disk_errors,
                                                      .disk_bytes = s.disk_bytes};
                           });
  openai::Service service(engine, text, metrics, about);

  options.http.refusal = openai::Service::refusal;
  if (!keys.empty() || !options.key_file.empty())
    options.http.admits = [&keys](const http::Request& request) {
      const std::string key = key_of(request);
      return !key.empty() && keys.has(key);
    };
  options.http.done = [&metrics, verbose = options.verbose](const http::Request& request, std::string_view route, int status,
                                                            std::size_t bytes, double seconds) {
    metrics.http(route, request.method, status, seconds);
    if (verbose)
      fmt::print(stderr, "{} \"{} {}\" {} {} bytes {:.3f} s {}\n", request.remote, printable(request.method), printable(request.path),
                 status, bytes, seconds, request.id);
  };
  options.http.bodies_bytes = std::max(options.http.bodies_bytes, 2 * options.http.body_bytes);
  http::Server server(options.http, service.routes());
  service.attach(server);
  if (!options.key_file.empty())
    server.every(std::chrono::seconds(1), [&options, &keys, read = time_of(options.key_file)]() mutable {
      const std::int64_t now = time_of(options.key_file);
      if (now == 0 || std::exchange(read, now) == now) return;
      try {
        keys = keys_of(options);
      } catch (const Error& error) {
        fmt::print(stderr, "quern: note: the keys stay as they were: {}\n", error.what());
      }
    });
  server.handle_signals(std::chrono::seconds(options.drain_s));
  if (options.verbose)
    fmt::print(stderr, "quern: note: context {} tokens, cache {} tokens ({}), {} requests at once\n", engine.context_length(),
               options.engine.cache_tokens, bytes_text(static_cast<std::uint64_t>(engine::cache_bytes(*model, options.engine))),
               options.engine.max_sequences);
  if (text.chat_template == nullptr)
    fmt::print(stderr, "quern: note: the model has no chat template, so chats are refused; --chat-template FILE|NAME gives one\n");
  const bool v6 = options.http.host.find(':') != std::string::npos;
  print(fmt::format("listening on http://{}{}{}:{}\n", v6 ? "[" : "", options.http.host, v6 ? "]" : "", server.port()));
  flush();
  server.run();
  service.close();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Serve a language model over HTTP, as OpenAI's clients speak it");
  auto options = std::make_shared<Options>();
  http::ServerOptions& http = options->http;
  const char *const kWho = "Who may use it", *const kModel = "The model", *const kLimits = "Limits";
  add_model(*command, options->model);
  command->add_option("--host", http.host, "Address to listen on [127.0.0.1]")->type_name("HOST");
  command->add_option("--port", http.port, "Port; 0: any that is free, which is printed [8080]")->type_name("N");
  command->add_option("--api-key", options->keys, "A key that clients must send; may be given several times, also as $QUERN_API_KEY")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->group(kWho);
  command->add_option("--api-key-file", options->key_file, "A file with a key a line")->type_name("F")->group(kWho);
  command->add_flag("--no-auth", options->open_to_all, "Listen to others than this machine without a key")->group(kWho);
  command->add_option("--cors-origin", http.cors_origins, "Pages of this origin may use the server; *: of any")
      ->type_name("ORIGIN")
      ->allow_extra_args(false)
      ->group(kWho);
  command->add_option("--served-model-name", options->names, "What requests call the model; without it, they may call it anything")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->group(kModel);
  command->add_option("--chat-template", options->chat_template, template_help())->type_name("FILE|NAME")->group(kModel);
  command->add_option("--pooling", options->pooling, "What makes an embedding of a text's states [what the file says, or last]")
      ->check(CLI::IsMember({"last", "mean", "cls"}))
      ->type_name("last|mean|cls")
      ->group(kModel);
  command
      ->add_option("--ctx,--context", options->engine.context_length,
                   "Tokens a conversation may have; by default what the model was trained for")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27))
      ->type_name("N")
      ->group(kModel);
  add_precision(*command, options->precision);
  command->get_option("--precision")->group(kModel);
  add_kv_type(*command, options->kv_dtype);
  command->get_option("--kv-type")->group(kModel);
  add_load(*command, options->load, kModel);
  add_draft(*command, options->draft, kModel);
  const auto limit = [&](const char* name, std::int64_t& value, const char* what, std::int64_t low, std::int64_t high) {
    command->add_option(name, value, what)->check(CLI::Range(low, high))->type_name("N")->group(kLimits);
  };
  limit("--parallel", options->engine.max_sequences, "Requests running at once; more wait [64]", 1, 4096);
  limit("--cache-tokens", options->engine.cache_tokens,
        "Tokens in the cache, over all requests; by default 262144, within a quarter of the free memory", 1, std::int64_t{1} << 30);
  command
      ->add_option("--max-itl-ms", options->engine.max_itl_ms,
                   "Longest time between the tokens of an answer while prompts are read; by default 2.5 times what it takes without them")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--kv-disk", options->kv_disk_bytes,
                   "Keep what was computed on disk, too, for the next start: so many bytes, as in 8G; by default nothing is written")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1} << 20, std::int64_t{1} << 50))
      ->type_name("SIZE")
      ->group(kModel);
  command
      ->add_option("--kv-disk-dir", options->engine.disk_cache.folder,
                   "Where [~/.cache/quern/kv]; without --kv-disk, 8G. Servers may share it")
      ->type_name("DIR")
      ->group(kModel);
  command->add_flag("--no-prefix-cache", options->no_prefix_cache, "Forget what ended requests computed")->group(kModel);
  command->add_flag("--no-lookup", options->no_lookup, "Do not guess tokens from the text so far and past answers")->group(kModel);
  limit("--max-queue", options->max_queue, "Requests that may wait; more are refused with 429 [1024]", 0, 1 << 20);
  limit("--max-per-tenant", options->max_of_tenant,
        "Answers that may be made at once for one key (or, without keys, one 'user'); more are refused with 429 [no limit]", 0, 1 << 20);
  limit("--drain-s", options->drain_s, "Seconds that what runs may go on for after SIGTERM or SIGINT [30]", 0, 86400);
  command->add_option("--max-connections", http.connections, "Connections at once [4096]")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->group(kLimits);
  command->add_option("--max-body", http.body_bytes, "Bytes of a request's body [16777216]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
      ->type_name("N")
      ->group(kLimits);
  add_threads(*command);
  add_verbose(*command, options->verbose, "Say on stderr what is served: a line a request");
  add_examples(*command,
               "  quern serve model.gguf                       on http://127.0.0.1:8080\n"
               "  quern serve model.gguf --port 0 -v\n"
               "  quern serve model.gguf --host 0.0.0.0 --api-key \"$KEY\"\n"
               "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
  command->callback([options] { serve(*options); });
}

}  // namespace quern::cli
