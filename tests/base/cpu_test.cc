#include "base/cpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "base/error.h"

namespace quern {
namespace {

TEST(Cpu, names_of_instruction_sets_read_back) {
  for (const Isa isa : kAllIsas) EXPECT_EQ(isa_from_name(name(isa)), isa);
  for (const char* other : {"", "AVX2", "avx", "avx5120", "baseline "}) EXPECT_FALSE(isa_from_name(other)) << other;
}

TEST(Cpu, the_best_is_one_that_the_machine_has) {
  EXPECT_TRUE(has_isa(best_isa()));
  EXPECT_TRUE(has_isa(Isa::baseline));
  EXPECT_GE(usable_cores(), 1);
}

/// In a process of its own: what best_isa() says with QUERN_ISA set, on stderr; exits 1 on an error.
void print_best(const char* wish) {
  setenv("QUERN_ISA", wish, 1);
  try {
    std::cerr << "best: " << name(best_isa()) << ", has avx512: " << has_isa(Isa::avx512) << "\n";
  } catch (const Error& e) {
    std::cerr << name(e.code()) << ": " << e.what() << "\n";
    std::exit(1);
  }
  std::exit(0);
}

TEST(CpuDeathTest, QUERN_ISA_lowers_the_best) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs this program again, where nothing has asked for the best yet
  EXPECT_EXIT(print_best("baseline"), ::testing::ExitedWithCode(0), "best: baseline, has avx512: 0");
}

TEST(CpuDeathTest, a_QUERN_ISA_that_names_nothing_is_an_error_that_lists_the_names) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(print_best("sse9"), ::testing::ExitedWithCode(1),
              "invalid_argument: QUERN_ISA=sse9 names no instruction set.*baseline, avx2.*neon");
}

TEST(CpuDeathTest, an_empty_QUERN_ISA_is_none) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(print_best(""), ::testing::ExitedWithCode(0), "best: ");
}

}  // namespace
}  // namespace quern
