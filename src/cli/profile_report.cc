#include "cli/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/output.h"

namespace quern::cli {
namespace {

using nlohmann::ordered_json;
using plan::Arithmetic;
using plan::Profile;

constexpr std::size_t kMostGroups = 4, kMostNodes = 12;  // that a table shows

std::string_view name(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f32: return "f32";
    case Arithmetic::bf16: return "bf16";
    case Arithmetic::int8: return "int8";
  }
  return "";
}

double peak(const cpu::Speed& speed, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f32: return speed.f32_flops;
    case Arithmetic::bf16: return speed.bf16_flops;
    case Arithmetic::int8: return speed.int8_ops;
  }
  return 0;
}

/// Steps that are told together.
struct Sum {
  std::string op, name;
  std::int64_t steps = 0, tasks = 0;
  double time_s = 0, waiting_s = 0;  // of the runs' time; waiting is a part of time
  double operations = 0, bytes = 0, memory_bytes = 0;
  double memory_s = 0, arithmetic_s = 0;  // what the machine would need
  Arithmetic arithmetic = Arithmetic::f32;

  /// Each step is limited by the slower of the two.
  double limit_s = 0;
  std::string_view limited_by() const {
    return limit_s == 0 ? std::string_view() : memory_s >= arithmetic_s ? "memory" : cli::name(arithmetic);
  }
  void add(const Profile::Step& step, unsigned workers, const cpu::Speed& speed) {
    ++steps;
    tasks += step.tasks;
    time_s += (step.busy_ns + step.waiting_ns) / workers * 1e-9;
    waiting_s += step.waiting_ns / workers * 1e-9;
    operations += step.cost.operations;
    bytes += step.cost.bytes;
    memory_bytes += step.cost.memory_bytes;
    const double memory = step.cost.memory_bytes / speed.memory_read_bytes_per_s;
    const double work = step.cost.operations / peak(speed, step.cost.arithmetic);
    memory_s += memory;
    arithmetic_s += work;
    limit_s += std::max(memory, work);
    if (work > 0) arithmetic = step.cost.arithmetic;
  }
};

/// "linear q4_1 amx", "rope": what a kernel calls itself, with its op where that does not say it.
std::string kernel_name(const plan::ProgramStep& step) {
  const std::string_view op = step.node->op->name, kernel = step.kernel->name();
  if (kernel.starts_with(op)) return printable(kernel);
  return fmt::format("{} ({})", op, printable(kernel));
}

/// "blk.*.ffn_down" of "blk.7.ffn_down": layers are told together.
std::string node_pattern(const plan::ProgramStep& step) {
  std::string pattern;
  for (const char c : step.node->name.empty() ? std::string(step.node->op->name) : step.node->name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      pattern += c;
    else if (!pattern.ends_with('*'))
      pattern += '*';
  }
  return printable(pattern);
}

/// The steps of a group by a name each, the longest first.
template <class NameOf>
std::vector<Sum> sums(const Profile::Group& group, const cpu::Speed& speed, NameOf name_of) {
  std::map<std::string, Sum> by_name;
  for (std::size_t s = 0; s < group.steps.size(); ++s) {
    const plan::ProgramStep& step = group.program->steps()[s];
    std::string name = name_of(s);
    Sum& sum = by_name[name];
    sum.name = std::move(name);
    sum.op = step.node->op->name;
    sum.add(group.steps[s], group.workers, speed);
  }
  std::vector<Sum> out;
  for (auto& [key, sum] : by_name) out.push_back(std::move(sum));
  std::sort(out.begin(), out.end(),
            [](const Sum& a, const Sum& b) { return a.time_s != b.time_s ? a.time_s > b.time_s : a.name < b.name; });
  return out;
}

std::vector<Sum> kernel_sums(const Profile::Group& group, const cpu::Speed& speed) {
  return sums(group, speed, [&](std::size_t s) { return kernel_name(group.program->steps()[s]); });
}
std::vector<Sum> node_sums(const Profile::Group& group, const cpu::Speed& speed) {
  return sums(group, speed, [&](std::size_t s) { return node_pattern(group.program->steps()[s]); });
}

std::vector<const Profile::Group*> longest_first(const Profile& profile) {
  std::vector<const Profile::Group*> groups;
  for (const Profile::Group& group : profile.groups()) groups.push_back(&group);
  std::sort(groups.begin(), groups.end(), [](const auto* a, const auto* b) { return a->wall_ns > b->wall_ns; });
  return groups;
}

/// "rows 1, tokens 512": the sizes that are not the same in all groups, or all of them.
std::string sizes_text(const Profile& profile, const Profile::Group& group) {
  std::string differing, all;
  for (std::size_t i = 0; i < group.sizes.size(); ++i) {
    const std::string text = fmt::format("{} {}", printable(group.program->symbols()[i]), group.sizes[i]);
    const bool differs = std::any_of(profile.groups().begin(), profile.groups().end(), [&](const Profile::Group& other) {
      return other.program == group.program && other.sizes[i] != group.sizes[i];
    });
    all += (all.empty() ? "" : ", ") + text;
    if (differs) differing += (differing.empty() ? "" : ", ") + text;
  }
  return !differing.empty() ? differing : !all.empty() ? all : "the model's sizes";
}

std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : ""; }
std::string rate(double amount, double seconds) { return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds * 1e-9) : ""; }

std::vector<std::string> row(const Sum& sum, double wall_s, std::int64_t runs) {
  return {sum.name,
          fmt::format("{}", sum.steps),
          fmt::format("{:.3f}", sum.time_s * 1e3 / double(runs)),
          percent(sum.time_s, wall_s),
          percent(sum.waiting_s, sum.time_s),
          rate(sum.bytes, sum.time_s),
          rate(sum.operations, sum.time_s),
          sum.limit_s > 0 ? fmt::format("{:.0f} %", 100 * sum.limit_s / sum.time_s) : "",
          std::string(sum.limited_by())};
}

std::string group_text(const Profile& profile, const Profile::Group& group, const cpu::Speed& speed) {
  const double wall_s = group.wall_ns * 1e-9, idle_s = group.idle_ns / group.workers * 1e-9;
  std::string out = fmt::format("{}: {} runs of {:.3f} ms, {} steps, {} workers (on a processor {:.0f} % of the time)\n",
                                sizes_text(profile, group), group.runs, wall_s * 1e3 / double(group.runs), group.steps.size(),
                                group.workers, 100 * group.processor_ns / (group.wall_ns * group.workers));
  const std::vector<std::string> head = {"", "steps", "ms/run", "time", "waiting", "GB/s", "Gop/s", "of limit", "set by"};
  const std::vector<std::size_t> numbers = {1, 2, 3, 4, 5, 6, 7};
  std::vector<std::vector<std::string>> rows = {head};
  rows[0][0] = "kernel";
  Sum total;
  for (const Sum& sum : kernel_sums(group, speed)) {
    rows.push_back(row(sum, wall_s, group.runs));
    total.steps += sum.steps, total.time_s += sum.time_s, total.waiting_s += sum.waiting_s, total.operations += sum.operations;
    total.bytes += sum.bytes, total.limit_s += sum.limit_s;
  }
  rows.push_back({"(idle)", "", fmt::format("{:.3f}", idle_s * 1e3 / double(group.runs)), percent(idle_s, wall_s)});
  total.name = "all";
  total.time_s += idle_s;
  rows.push_back(row(total, wall_s, group.runs));
  rows.back().back().clear();  // some by this, some by that
  out += table(rows, numbers);

  rows = {head};
  rows[0][0] = "node";
  const std::vector<Sum> nodes = node_sums(group, speed);
  for (std::size_t i = 0; i < std::min(nodes.size(), kMostNodes); ++i) rows.push_back(row(nodes[i], wall_s, group.runs));
  return out + "\n" + table(rows, numbers);
}

ordered_json to_json(const Sum& sum) {
  ordered_json out = {{"name", sum.name},
                      {"op", sum.op},
                      {"steps", sum.steps},
                      {"tasks", sum.tasks},
                      {"time_s", sum.time_s},
                      {"waiting_s", sum.waiting_s},
                      {"bytes", sum.bytes},
                      {"memory_bytes", sum.memory_bytes},
                      {"operations", sum.operations},
                      {"arithmetic", cli::name(sum.arithmetic)}};
  if (sum.limit_s > 0) {
    out["limited_by"] = sum.limited_by();
    out["share_of_limit"] = sum.time_s > 0 ? sum.limit_s / sum.time_s : 0;
  }
  return out;
}

ordered_json to_json(const std::vector<Sum>& list) {
  ordered_json out = ordered_json::array();
  for (const Sum& sum : list) out.push_back(to_json(sum));
  return out;
}

ordered_json to_json(const Profile::Group& group, const cpu::Speed& speed) {
  ordered_json sizes = ordered_json::object();
  for (std::size_t i = 0; i < group.sizes.size(); ++i) sizes[group.program->symbols()[i]] = group.sizes[i];
  ordered_json steps = ordered_json::array();
  for (std::size_t s = 0; s < group.steps.size(); ++s) {
    const plan::ProgramStep& step = group.program->steps()[s];
    Sum sum;
    sum.name = step.node->name;
    sum.op = step.node->op->name;
    sum.add(group.steps[s], group.workers, speed);
    steps.push_back(to_json(sum));
    steps.back()["kernel"] = kernel_name(step);
  }
  return {{"sizes", std::move(sizes)},
          {"workers", group.workers},
          {"runs", group.runs},
          {"wall_s", group.wall_ns * 1e-9},
          {"processor_s", group.processor_ns * 1e-9},
          {"idle_s", group.idle_ns / group.workers * 1e-9},
          {"kernels", to_json(kernel_sums(group, speed))},
          {"nodes", to_json(node_sums(group, speed))},
          {"steps", std::move(steps)}};
}

std::string dump(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

/// What the events of one step have in common: "name": …, and the beginning of "args".
std::vector<std::string> step_texts(const Profile::Group& group) {
  std::vector<std::string> texts;
  for (std::size_t s = 0; s < group.steps.size(); ++s) {
    const plan::ProgramStep& step = group.program->steps()[s];
    const Profile::Step& times = group.steps[s];
    const double share = 1 / double(group.runs * std::max<std::int64_t>(1, times.tasks));
    const std::string name = step.node->name.empty() ? std::string(step.node->op->name) : step.node->name;
    texts.push_back(
        fmt::format(R"("name":{},"cat":{},"args":{{"op":{},"node":{},"kernel":{},"step":{},"tasks":{},"bytes":{:.0f},"operations":{:.0f})",
                    dump(name), dump(step.node->op->name), dump(step.node->op->name), dump(step.node->name), dump(kernel_name(step)), s,
                    times.tasks, times.cost.bytes * share, times.cost.operations * share));
  }
  return texts;
}

void write_events(std::ofstream& out, const Profile& profile) {
  const std::int64_t start = profile.runs().empty() ? 0 : profile.runs().front().begin_ns;
  const auto times = [&](std::int64_t begin, std::int64_t end) {
    return fmt::format(R"("ph":"X","ts":{:.3f},"dur":{:.3f},"pid":1)", double(begin - start) * 1e-3, double(end - begin) * 1e-3);
  };
  unsigned workers = 0;
  std::vector<std::vector<std::string>> texts;
  for (const Profile::Group& group : profile.groups()) {
    texts.push_back(step_texts(group));
    workers = std::max(workers, group.workers);
  }
  out << R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"quern"}})";
  const auto name_track = [&](unsigned track, const std::string& name) {
    out << fmt::format(
        ",\n"
        R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}})",
        track, name);
  };
  name_track(0, "runs");
  for (unsigned w = 0; w < workers; ++w) name_track(w + 1, fmt::format("worker {}", w));
  for (const Profile::Run& run : profile.runs())
    out << fmt::format(
        ",\n"
        R"({{"name":{},"cat":"run",{},"tid":0}})",
        dump(sizes_text(profile, profile.groups()[run.group])), times(run.begin_ns, run.end_ns));
  for (const Profile::Event& event : profile.events())
    out << fmt::format(
        ",\n"
        R"({{{},"task":{}}},{},"tid":{}}})",
        texts[event.group][event.step], event.task, times(event.begin_ns, event.end_ns), event.worker + 1);
}

}  // namespace

std::string profile_text(const Profile& profile, const cpu::Speed& speed) {
  const std::vector<const Profile::Group*> groups = longest_first(profile);
  std::string out;
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) out += group_text(profile, *groups[i], speed) + "\n";
  if (groups.size() > kMostGroups) out += fmt::format("and {} sets of sizes that took less\n", groups.size() - kMostGroups);
  out += fmt::format("measured limits: memory read {:.1f} GB/s, f32 {:.0f}, bf16 {:.0f}, int8 {:.0f} Gop/s\n",
                     speed.memory_read_bytes_per_s * 1e-9, speed.f32_flops * 1e-9, speed.bf16_flops * 1e-9, speed.int8_ops * 1e-9);
  return out;
}

std::string profile_json(const Profile& profile, const cpu::Speed& speed) {
  ordered_json groups = ordered_json::array();
  for (const Profile::Group* group : longest_first(profile)) groups.push_back(to_json(*group, speed));
  return dump({{"machine", {{"cpu", cpu_model()}, {"isa", quern::name(best_isa())}, {"workers", process_pool().workers()}}},
               {"limits",
                {{"memory_read_bytes_per_s", speed.memory_read_bytes_per_s},
                 {"f32_flops", speed.f32_flops},
                 {"bf16_flops", speed.bf16_flops},
                 {"int8_ops", speed.int8_ops}}},
               {"complete", profile.complete()},
               {"groups", std::move(groups)}});
}

ProfileFile::ProfileFile(const std::string& path) : path_(path), out_(path) {
  if (!out_) throw Error(Code::invalid_argument, "cannot write the profile").at(path_);
}

void ProfileFile::finish() {
  const cpu::Speed speed = cpu::measure_speed(process_pool());
  out_ << "{\"traceEvents\":[\n";
  write_events(out_, profile_);
  out_ << "\n],\n\"quern\":" << profile_json(profile_, speed) << "}\n";
  out_.close();
  if (!out_) throw Error(Code::invalid_argument, "cannot write the profile").at(path_);
  fmt::print(stderr, "{}", profile_text(profile_, speed));
  if (!profile_.complete()) fmt::print(stderr, "quern: note: the file has the first runs; the table has them all\n");
}

}  // namespace quern::cli
