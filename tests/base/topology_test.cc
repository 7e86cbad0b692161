#include "base/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

/// What Linux shows of a machine, in a folder of our own.
class Machine : public ::testing::Test {
 protected:
  Machine() {
    std::string pattern = (fs::temp_directory_path() / "quern_topology_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~Machine() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void cpu(int number, int package, int core) {
    const std::string folder = "cpu/cpu" + std::to_string(number) + "/topology/";
    write(folder + "physical_package_id", std::to_string(package));
    write(folder + "core_id", std::to_string(core));
  }
  /// Two sockets of four cores with two threads each, numbered as Intel servers do: 0-3 and 4-7 are the cores, 8-15 their second threads.
  void two_sockets() {
    for (int n = 0; n < 16; ++n) cpu(n, n / 4 % 2, n % 4);
    write("node/online", "0-1");
    write("node/node0/cpulist", "0-3,8-11");
    write("node/node1/cpulist", "4-7,12-15");
  }
  Topology read(const std::string& cpus) { return read_topology(root_, parse_cpu_list(cpus)); }

  fs::path root_;
};

TEST_F(Machine, hardware_threads_of_a_core_count_once) {
  two_sockets();
  const Topology t = read("0-15");
  ASSERT_EQ(t.cores.size(), 8u);
  EXPECT_EQ(t.nodes, 2);
  EXPECT_EQ(t.cores[0].cpus, (std::vector{0, 8}));
  EXPECT_EQ(t.cores[7].cpus, (std::vector{7, 15}));
  EXPECT_EQ(t.cores[3].node, 0);
  EXPECT_EQ(t.cores[4].node, 1);
  EXPECT_EQ(t.cpus_of(1), (std::vector{4, 12, 5, 13, 6, 14, 7, 15}));
}

TEST_F(Machine, only_what_the_process_may_use_counts) {
  two_sockets();
  const Topology t = read("5,6,13");
  ASSERT_EQ(t.cores.size(), 2u);
  EXPECT_EQ(t.nodes, 1) << "the other node has no core for us";
  EXPECT_EQ(t.cores[0].cpus, (std::vector{5, 13}));
  EXPECT_EQ(t.cores[0].node, 0) << "nodes are counted among those that have cores";
}

TEST_F(Machine, workers_spread_over_nodes_by_their_cores) {
  two_sockets();
  EXPECT_EQ(spread_workers(read("0-15"), 8), (std::vector{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(spread_workers(read("0-15"), 3), (std::vector{0, 0, 1}));
  EXPECT_EQ(spread_workers(read("0-3,4"), 5), (std::vector{0, 0, 0, 0, 1}));
  EXPECT_EQ(spread_workers(read("0-15"), 16).back(), 1) << "more workers than cores";
  EXPECT_EQ(spread_workers(Topology{}, 3), (std::vector{0, 0, 0})) << "a machine that says nothing";
}

TEST_F(Machine, what_the_system_does_not_describe_is_a_core_on_one_node) {
  const Topology t = read("0-2");
  EXPECT_EQ(t.cores.size(), 3u);
  EXPECT_EQ(t.nodes, 1);
}

TEST_F(Machine, files_that_make_no_sense_do_no_harm) {
  cpu(0, 0, 0);
  write("node/online", "0-9999999999,-3,x,1-,0");
  write("node/node0/cpulist", "5-2,,0-4095,99999999999999999999-");
  const Topology t = read("0,1");
  EXPECT_EQ(t.cores.size(), 2u);
  EXPECT_EQ(t.nodes, 1);
}

TEST(CpuList, is_read_as_the_system_writes_it) {
  EXPECT_EQ(parse_cpu_list("0-2,5,7-7"), (std::vector{0, 1, 2, 5, 7}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>());
  EXPECT_EQ(parse_cpu_list("3,1,3"), (std::vector{1, 3}));
}

TEST(ShareOfNode, everything_has_one_node_in_proportion_to_its_workers) {
  for (const std::vector<int>& nodes : {std::vector{0}, {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 2, 3, 3}, {0, 2, 2}})
    for (const std::uint32_t count : {0u, 1u, 15u, 16u, 17u, 576u, 49152u, 4294967295u}) {
      std::uint32_t next = 0;
      for (int node = 0; node <= nodes.back(); ++node) {
        const Share share = share_of_group(count, nodes, node);
        ASSERT_EQ(share.begin, next) << "nothing is missing or had twice";
        ASSERT_LE(share.begin, share.end);
        const auto workers = double(std::count(nodes.begin(), nodes.end(), node));
        ASSERT_NEAR(double(share.end - share.begin), double(count) * workers / double(nodes.size()), 1.0);
        next = share.end;
      }
      ASSERT_EQ(next, count);
    }
}

TEST(Topology, of_this_machine_has_as_many_cores_as_we_use_at_most) {
  const std::vector<int> cpus = allowed_cpus();
  const Topology t = read_topology("/sys/devices/system", cpus);
  EXPECT_GE(static_cast<int>(t.cores.size()), cpus.empty() ? 0 : usable_cores());
  std::multiset<int> all;
  for (const Topology::Core& core : t.cores) all.insert(core.cpus.begin(), core.cpus.end());
  EXPECT_EQ(all, std::multiset<int>(cpus.begin(), cpus.end()));
}

}  // namespace
}  // namespace quern
