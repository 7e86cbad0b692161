#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "walls.h"

namespace quern::rooms {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A made-up src/ folder with three rooms: base, ir (may include base) and formats/gguf (may include base and ir).
class Walls : public ::testing::Test {
 protected:
  Walls() : src_(fs::path(::testing::TempDir()) / ("walls_" + std::to_string(::getpid()))) {
    write("rooms.txt", "# a comment\nbase | things | \nir | graph | base\nformats/gguf | files | base ir\n");
    write("base/error.h", "#pragma once\n#include <string>\n");
    write("ir/graph.h", "#include \"base/error.h\"\n");
    write("ir/detail/order.h", "");
    write("formats/gguf/reader.h", "#include \"ir/graph.h\"\n");
  }
  ~Walls() override { fs::remove_all(src_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((src_ / file).parent_path());
    std::ofstream(src_ / file) << text;
  }

  fs::path src_;
};

TEST(Rooms, every_include_of_src_keeps_to_the_walls_of_rooms_txt) {
  EXPECT_THAT(broken_walls(fs::path(QUERN_SOURCE_DIR) / "src"), IsEmpty());
}

TEST_F(Walls, accepts_a_tree_that_keeps_to_its_walls) { EXPECT_THAT(broken_walls(src_), IsEmpty()); }

TEST_F(Walls, finds_an_include_of_a_room_that_is_not_listed) {
  write("ir/graph.cc", "#include \"ir/graph.h\"\n\n#include \"formats/gguf/reader.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("ir/graph.cc:3: ir may not include formats/gguf (formats/gguf/reader.h)"));
}

TEST_F(Walls, finds_an_include_however_it_is_spaced) {
  write("base/error.cc", "  #  include   \"ir/graph.h\"  // why not\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("base/error.cc:1: base may not include ir (ir/graph.h)"));
}

TEST_F(Walls, keeps_what_is_in_detail_to_its_own_room) {
  write("ir/graph.cc", "#include \"ir/detail/order.h\"\n");
  write("formats/gguf/reader.cc", "#include \"ir/detail/order.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("formats/gguf/reader.cc:1: ir/detail/order.h is private to ir"));
}

TEST_F(Walls, keeps_heavy_libraries_out_of_headers) {
  write("base/json.cc", "#include <nlohmann/json.hpp>\n");
  write("base/json.h", "#include <nlohmann/json.hpp>\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("base/json.h:1: nlohmann-json belongs into .cc files"));
}

TEST_F(Walls, allows_highway_in_inl_headers_alone) {
  write("ir/simd-inl.h", "#include \"hwy/highway.h\"\n");
  write("ir/simd.h", "#include \"hwy/highway.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("ir/simd.h:1: Highway belongs into .cc files"));
}

TEST_F(Walls, keeps_inline_functions_out_of_files_of_one_instruction_set) {
  write("ir/job.h", "#include <cstdint>\n");
  write("ir/product.avx2.cc", "#include <immintrin.h>\n#include <vector>\n#include \"ir/job.h\"\n#include \"base/error.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("ir/product.avx2.cc:2: a file of one instruction set may not include vector",
                                              "ir/product.avx2.cc:4: a file of one instruction set may not include base/error.h"));
}

TEST_F(Walls, lets_files_of_one_instruction_set_share_text_of_the_folder_above) {
  write("ir/tile.inc", "");
  write("ir/tile.h", "");
  write("ir/linear/product.amx.cc", "#include \"ir/tile.inc\"\n#include \"ir/tile.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("ir/linear/product.amx.cc:2: a file of one instruction set may not include ir/tile.h"));
}

TEST_F(Walls, finds_a_source_file_outside_every_room) {
  write("misc/helpers.cc", "");
  EXPECT_THAT(broken_walls(src_), ElementsAre("misc/helpers.cc:1: is in no room of rooms.txt"));
}

TEST_F(Walls, finds_an_include_that_is_not_written_from_src) {
  write("ir/graph.cc", "#include \"graph.h\"\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre(HasSubstr("there is no src/graph.h")));
}

TEST_F(Walls, rejects_a_row_that_may_include_a_room_below_it) {
  write("rooms.txt", "base | things | ir\nir | graph | base\nformats/gguf | files | base ir\n");
  EXPECT_THAT(broken_walls(src_), ElementsAre("rooms.txt:1: base may include 'ir', which is no row above"));
}

}  // namespace
}  // namespace quern::rooms
