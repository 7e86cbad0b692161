#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <utility>

namespace quern {
namespace {

constexpr int kMostCpus = 4096;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int first = 0, last = 0;
    const auto number = [&](int& n) {
      const auto [next, error] = std::from_chars(at, end, n);
      const bool good = error == std::errc() && n >= 0 && n < kMostCpus;
      at = next;
      return good;
    };
    if (number(first)) {
      last = first;
      if (at < end && *at == '-' && (++at, !number(last))) last = -1;
      for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    }
    at = std::find(at, end, ',');
    if (at < end) ++at;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  return cpus;
}

Topology read_topology(const std::string& root, std::span<const int> cpus) {
  std::map<int, int> node_of;
  for (const int node : parse_cpu_list(first_line(root + "/node/online")))
    for (const int cpu : parse_cpu_list(first_line(root + "/node/node" + std::to_string(node) + "/cpulist"))) node_of[cpu] = node;

  std::map<std::pair<std::string, std::string>, std::size_t> known;  // package and core
  Topology topology;
  for (const int cpu : cpus) {
    const std::string folder = root + "/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string core = first_line(folder + "core_id");
    std::size_t index = topology.cores.size();
    if (!core.empty()) index = known.emplace(std::pair(first_line(folder + "physical_package_id"), core), index).first->second;
    if (index == topology.cores.size()) {
      const auto node = node_of.find(cpu);
      topology.cores.push_back({{}, node == node_of.end() ? 0 : node->second});
    }
    topology.cores[index].cpus.push_back(cpu);
  }
  std::sort(topology.cores.begin(), topology.cores.end(),
            [](const Topology::Core& a, const Topology::Core& b) { return std::pair(a.node, a.cpus[0]) < std::pair(b.node, b.cpus[0]); });
  int last = -1, count = 0;
  for (Topology::Core& core : topology.cores) {
    if (core.node != last) ++count;
    last = std::exchange(core.node, count - 1);
  }
  topology.nodes = std::max(1, count);
  return topology;
}

std::vector<int> Topology::cpus_of(int node) const {
  std::vector<int> cpus;
  for (const Core& core : cores)
    if (core.node == node) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  return cpus;
}

std::vector<int> spread_workers(const Topology& topology, unsigned workers) {
  std::vector<int> nodes(workers, 0);
  if (!topology.cores.empty())
    for (std::size_t w = 0; w < workers; ++w) nodes[w] = topology.cores[w * topology.cores.size() / workers].node;
  return nodes;
}

Share share_of_group(std::uint32_t count, std::span<const int> worker_groups, int group) {
  const auto [first, last] = std::equal_range(worker_groups.begin(), worker_groups.end(), group);
  const auto bound = [&](auto workers_before) {
    return static_cast<std::uint32_t>(std::uint64_t{count} * static_cast<std::uint64_t>(workers_before - worker_groups.begin()) /
                                      worker_groups.size());
  };
  return {bound(first), bound(last)};
}

}  // namespace quern
