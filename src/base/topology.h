#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quern {

/// The physical cores that a process may use, and which part of the memory (NUMA node) each is near to.
struct Topology {
  struct Core {
    std::vector<int> cpus;  // its hardware threads that may be used, as the system counts them
    int node = 0;           // counted from 0 over the nodes that have cores here
  };
  std::vector<Core> cores;  // by node, then by their first hardware thread
  int nodes = 1;

  /// The hardware threads of a node's cores.
  std::vector<int> cpus_of(int node) const;
};

/// As Linux describes it below `root` (/sys/devices/system): cpu/cpuN/topology and node/nodeN/cpulist, for these hardware threads. What is
/// not described is a core of its own, on node 0.
Topology read_topology(const std::string& root, std::span<const int> cpus);
/// Hardware threads that the calling thread may run on; empty when the system does not say.
std::vector<int> allowed_cpus();
/// "0-2,5" as the system writes lists; what makes no sense is left out. At most the numbers below 4096.
std::vector<int> parse_cpu_list(const std::string& text);

/// The node of each of `workers` workers, in order, spread over the cores evenly: as many on a node as it has cores, in proportion.
std::vector<int> spread_workers(const Topology& topology, unsigned workers);

/// Of `count` things that groups of workers share, those [begin, end) of one group: in proportion to its workers. `worker_groups`: the
/// group of each worker, ascending, as spread_workers gives their nodes.
struct Share {
  std::uint32_t begin, end;
};
Share share_of_group(std::uint32_t count, std::span<const int> worker_groups, int group);

}  // namespace quern
