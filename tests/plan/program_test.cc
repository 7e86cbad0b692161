#include "plan/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "node_by_node.h"
#include "ops/registry.h"
#include "plan/session.h"
#include "tiled_backend.h"

namespace quern::plan {
namespace {

using testing::Bytes;

std::shared_ptr<const Program> compile(const ir::Graph& graph) {
  testing::TiledBackend backend;
  Backend* const backends[] = {&backend};
  return Program::compile(graph, backends);
}

std::shared_ptr<const Program> compile(std::string_view text) {
  const auto graph = ir::parse_graph(text, ops::find);
  ir::verify(*graph);
  return compile(*graph);
}

/// The storage of the slot of that name.
int storage_of(const Program& program, std::string_view name) {
  for (const Slot& slot : program.slots())
    if (slot.name == name) return slot.storage;
  ADD_FAILURE() << "no slot " << name;
  return -1;
}
Storage::Kind kind_of(const Program& program, std::string_view name) {
  return program.storages()[static_cast<std::size_t>(storage_of(program, name))].kind;
}
int buffer_of(const Program& program, std::string_view name) {
  EXPECT_EQ(kind_of(program, name), Storage::Kind::arena) << name;
  return program.storages()[static_cast<std::size_t>(storage_of(program, name))].index;
}

Bytes floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes copy(const ir::TensorView& view) { return Bytes(view.data, view.data + view.bytes()); }

TEST(Program, values_that_are_dead_give_their_buffers_to_later_ones) {
  const auto program = compile(R"(graph main(%x: f32[T, 8], %w: f32[8, 8]) {
    %a = matmul(%x, %w)
    %b = matmul(%a, %w)
    %c = matmul(%b, %w)
    %d = matmul(%c, %w)
    return %d
  })");
  EXPECT_EQ(program->memory().buffers.size(), 2u);
  EXPECT_NE(buffer_of(*program, "a"), buffer_of(*program, "b"));
  EXPECT_EQ(buffer_of(*program, "a"), buffer_of(*program, "c"));
  EXPECT_EQ(program->memory().total().evaluate({{"T", 10}}), 2 * 320);
}

TEST(Program, an_elementwise_op_takes_the_bytes_of_its_input_when_nobody_reads_it_later) {
  const auto program = compile(R"(graph main(%x: f32[T, 8], %w: f32[8, 8]) {
    %a = matmul(%x, %w)
    %b = relu(%a)
    %c = add(%b, %x)
    %d = add(%c, %c)
    return %d
  })");
  EXPECT_EQ(storage_of(*program, "a"), storage_of(*program, "b"));
  EXPECT_EQ(storage_of(*program, "b"), storage_of(*program, "c"));
  EXPECT_EQ(storage_of(*program, "c"), storage_of(*program, "d"));
}

TEST(Program, no_op_takes_the_bytes_of_an_input_that_is_needed_as_it_was) {
  const auto program = compile(R"(graph main(%x: f32[T, 8], %w: f32[8, 8], %big: f32[3, T, 8]) {
    %shape = constant: i64[1] = [-1]
    %from_input = relu(%x)
    %a = matmul(%x, %w)
    %read_later = relu(%a)
    %b = add(%read_later, %a)
    %flat = reshape(%b, %shape)
    %seen_through_a_view = relu(%b)
    %c = relu(%flat)
    %d = matmul(%x, %w)
    %an_output = relu(%d)
    %e = matmul(%x, %w)
    %other_type = less(%e, %e)
    %f = matmul(%x, %w)
    %broadcast = add(%f, %big)
    return %from_input, %seen_through_a_view, %c, %d, %an_output, %other_type, %broadcast
  })");
  EXPECT_EQ(kind_of(*program, "x"), Storage::Kind::input);
  EXPECT_NE(storage_of(*program, "from_input"), storage_of(*program, "x"));
  EXPECT_NE(storage_of(*program, "read_later"), storage_of(*program, "a"));
  EXPECT_EQ(storage_of(*program, "flat"), storage_of(*program, "b"));
  EXPECT_NE(storage_of(*program, "seen_through_a_view"), storage_of(*program, "b"));
  EXPECT_EQ(storage_of(*program, "c"), storage_of(*program, "b")) << "the last reader of a view may";
  EXPECT_NE(storage_of(*program, "an_output"), storage_of(*program, "d"));
  EXPECT_NE(storage_of(*program, "other_type"), storage_of(*program, "e"));
  EXPECT_NE(storage_of(*program, "broadcast"), storage_of(*program, "f"));
}

TEST(Program, views_and_nodes_that_only_make_sizes_are_no_steps) {
  const auto program = compile(R"(graph main(%x: f32[T, 8]) {
    %s = shape(%x)
    %minus = constant: i64[1] = [-1]
    %flat = reshape(%x, %minus)
    %y = relu(%flat)
    %z = reshape(%y, %s)
    return %z
  })");
  ASSERT_EQ(program->steps().size(), 1u);
  EXPECT_EQ(storage_of(*program, "flat"), storage_of(*program, "x"));
  EXPECT_EQ(storage_of(*program, "z"), storage_of(*program, "y"));
}

TEST(Program, nodes_that_no_output_needs_are_not_run) {
  const auto program = compile("graph main(%x: f32[T]) {\n %y = relu(%x)\n %unused = neg(%y)\n return %y\n}");
  EXPECT_EQ(program->steps().size(), 1u);
}

TEST(Program, states_are_written_where_they_lie_and_in_order) {
  const auto program = compile(R"(graph main(%x: f32[T, 2, 4], %slots: i32[T], %cache: state f32[blocks, 2, 4, 4]) {
    %first = kv_write(%cache, %x, %slots)
    %y = add(%x, %x)
    %second = kv_write(%first, %y, %slots)
    return %y, %second
  })");
  EXPECT_EQ(program->states().size(), 1u);
  EXPECT_EQ(program->outputs().size(), 1u);
  EXPECT_EQ(storage_of(*program, "cache"), storage_of(*program, "second"));
  ASSERT_EQ(program->steps().size(), 3u);
  EXPECT_GE(program->steps()[2].wait_for, 1) << "the second write needs y, and comes after the first";
}

TEST(Program, a_state_that_is_read_after_it_was_overwritten_is_refused) {
  for (const char* text : {R"(graph main(%x: f32[T, 2, 4], %slots: i32[T], %cache: state f32[blocks, 2, 4, 4]) {
    %minus = constant: i64[1] = [-1]
    %old = reshape(%cache, %minus)
    %new = kv_write(%cache, %x, %slots)
    %y = neg(%old)
    return %y, %new
  })",
                           R"(graph main(%x: f32[T, 2, 4], %slots: i32[T], %cache: state f32[blocks, 2, 4, 4]) {
    %new = kv_write(%cache, %x, %slots)
    return %cache, %new
  })"}) {
    const auto graph = ir::parse_graph(text, ops::find);
    try {
      compile(*graph);
      ADD_FAILURE() << "compiled: " << text;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("kv_write overwrites the state 'cache', which is read later"), 0u) << e.what();
    }
  }
}

TEST(Program, a_step_waits_for_the_last_that_made_what_it_reads_or_used_what_it_overwrites) {
  const auto program = compile(R"(graph main(%x: f32[T, 8], %w: f32[8, 8]) {
    %a = matmul(%x, %w)
    %b = matmul(%x, %w)
    %c = matmul(%a, %w)
    %d = matmul(%c, %b)
    return %d
  })");
  ASSERT_EQ(program->steps().size(), 4u);
  EXPECT_EQ(program->steps()[0].wait_for, -1);
  EXPECT_EQ(program->steps()[1].wait_for, -1) << "independent of the first";
  EXPECT_EQ(program->steps()[2].wait_for, 0);
  EXPECT_EQ(buffer_of(*program, "d"), buffer_of(*program, "a"));
  EXPECT_EQ(program->steps()[3].wait_for, 2);
}

TEST(Program, what_no_backend_can_run_is_an_error_that_names_the_node) {
  struct Nothing final : Backend {
    std::string_view name() const override { return "nothing"; }
    std::unique_ptr<Kernel> lower(const ir::Node&) override { return nullptr; }
  } backend;
  Backend* const backends[] = {&backend};
  const auto graph = ir::parse_graph("graph main(%x: f32[T]) {\n %y = relu(%x)\n return %y\n}", ops::find);
  try {
    Program::compile(*graph, backends);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unsupported);
    EXPECT_STREQ(e.what(), "no backend can run relu (in node 'y')");
  }
}

/// A random graph over values of [T, 8] (as such, flat, and as [T, 2, 4]), a state, and constants.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), graph_(std::make_unique<ir::Graph>("random")) {
    const ir::Dim t = ir::Dim::symbol("T");
    for (int i = 0; i < 2; ++i) rows_.push_back(graph_->add_input("x" + std::to_string(i), {ir::DType::f32, {t, 8}}));
    slots_ = graph_->add_input("slots", {ir::DType::i32, {t}});
    state_ = graph_->add_input("cache", {ir::DType::f32, {ir::Dim::symbol("blocks"), 2, 4, 4}, true});
    for (int i = 0; i < 2; ++i) weights_.push_back(constant({8, 8}));
    norms_.push_back(constant({8}));
    flat_shape_ = graph_->add_integers(std::array<std::int64_t, 1>{-1});
    rows_shape_ = graph_->add_integers(std::array<std::int64_t, 2>{-1, 8});
    heads_shape_ = graph_->add_integers(std::array<std::int64_t, 3>{-1, 2, 4});
    const int nodes = 3 + static_cast<int>(random_() % 25);
    for (int i = 0; i < nodes; ++i) add_node();
    std::vector<ir::Value*> outputs;
    const std::size_t count = 1 + random_() % 4;
    for (std::size_t i = 0; i < count; ++i)
      outputs.push_back(random_() % 8 == 0 ? weights_[0] : any(random_() % 3 == 0 ? flat_or_rows() : rows_));
    outputs.push_back(state_);
    graph_->set_outputs(std::move(outputs));
  }

  const ir::Graph& graph() const { return *graph_; }

  std::map<std::string, Bytes> inputs(std::int64_t t, std::int64_t blocks) {
    std::map<std::string, Bytes> made;
    const auto some = [&](std::int64_t n) {
      std::vector<float> values(static_cast<std::size_t>(n));
      for (float& f : values) f = std::uniform_real_distribution<float>(-1, 1)(random_);
      return floats(values);
    };
    made["x0"] = some(t * 8);
    made["x1"] = some(t * 8);
    made["cache"] = some(blocks * 32);
    std::vector<std::int32_t> slots(static_cast<std::size_t>(blocks * 4));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random_);
    made["slots"].resize(static_cast<std::size_t>(t) * 4);
    if (t > 0) std::memcpy(made["slots"].data(), slots.data(), static_cast<std::size_t>(t) * 4);
    return made;
  }

 private:
  ir::Value* any(const std::vector<ir::Value*>& of) {
    // Mostly recent values: chains, where buffers die and are taken again.
    const std::size_t back = random_() % 3 == 0 ? random_() % of.size() : random_() % std::min<std::size_t>(3, of.size());
    return of[of.size() - 1 - back];
  }
  const std::vector<ir::Value*>& flat_or_rows() const { return flat_.empty() ? rows_ : flat_; }

  ir::Value* constant(std::vector<std::int64_t> shape) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& f : values) f = std::uniform_real_distribution<float>(-1, 1)(random_);
    return graph_->add_constant("", {ir::DType::f32, {shape.begin(), shape.end()}}, std::as_bytes(std::span(values)));
  }

  void add_node() {
    const auto append = [&](const ir::Op& op, std::vector<ir::Value*> inputs, ir::Attributes attributes = {}) {
      return graph_->append(op, std::move(inputs), std::move(attributes))->outputs[0];
    };
    switch (random_() % 16) {
      case 0: return rows_.push_back(append(ops::add, {any(rows_), any(rows_)}));
      case 1: return rows_.push_back(append(ops::mul, {any(rows_), any(rows_)}));
      case 2: return rows_.push_back(append(ops::tanh, {any(rows_)}));
      case 3: return rows_.push_back(append(ops::glu, {any(rows_), any(rows_)}));
      case 4: return rows_.push_back(append(ops::rms_norm, {any(rows_), norms_[0]}));
      case 5: return rows_.push_back(append(ops::linear, {any(rows_), any(weights_)}));
      case 6: return rows_.push_back(append(ops::matmul, {any(rows_), any(weights_)}));
      case 7: return flat_.push_back(append(ops::reshape, {any(rows_), flat_shape_}));
      case 8: return rows_.push_back(append(ops::reshape, {any(flat_or_rows()), rows_shape_}));
      case 9:
        if (flat_.empty()) return;
        return flat_.push_back(append(ops::sub, {any(flat_), any(flat_)}));
      case 10: return rows_.push_back(append(ops::sum, {any(rows_), any(rows_), any(rows_)}));
      case 11: return rows_.push_back(append(ops::add, {any(rows_), norms_[0]}));
      case 12: {
        const auto heads = append(ops::reshape, {any(rows_), heads_shape_});
        state_ = append(ops::kv_write, {state_, heads, slots_});
        return;
      }
      case 13: {
        const auto parts = graph_->append(ops::split, {any(rows_)}, {{"axis", std::int64_t{1}}, {"outputs", std::int64_t{2}}});
        ir::Value* again = append(ops::concat, {parts->outputs[1], parts->outputs[random_() % 2]}, {{"axis", std::int64_t{1}}});
        return rows_.push_back(again);
      }
      case 14: return rows_.push_back(append(ops::identity, {any(rows_)}));
      default: return rows_.push_back(append(ops::softmax, {any(rows_)}));
    }
  }

  std::mt19937 random_;
  std::unique_ptr<ir::Graph> graph_;
  std::vector<ir::Value*> rows_, flat_, weights_, norms_;
  ir::Value *slots_, *state_, *flat_shape_, *rows_shape_, *heads_shape_;
};

TEST(Program, random_graphs_on_many_workers_compute_what_their_nodes_compute_one_by_one) {
  ThreadPool pool(4);
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomGraph made(seed);
    const ir::Graph& graph = made.graph();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::to_text(graph));
    ASSERT_NO_THROW(ir::verify(graph));
    const auto program = compile(graph);
    Session session(program, pool);
    // Growing and shrinking, nothing at all, and sizes seen before: the arena moves, bindings are found again.
    for (const std::int64_t t : {3, 20, 1, 0, 20, 3}) {
      const std::int64_t blocks = 6;
      auto inputs = made.inputs(t, blocks);
      const std::vector<Bytes> expected = testing::run_node_by_node(graph, {{"T", t}, {"blocks", blocks}}, inputs);
      std::vector<std::int64_t> symbols;
      for (const std::string& s : program->symbols()) symbols.push_back(s == "T" ? t : blocks);
      Binding& binding = session.bind(symbols);
      session.set_state(0, inputs["cache"].data());
      std::vector<const std::byte*> data;
      for (const int slot : program->inputs()) data.push_back(inputs.at(program->slots()[static_cast<std::size_t>(slot)].name).data());
      const Bytes x0 = inputs["x0"], x1 = inputs["x1"];
      session.run(binding, data);
      for (std::size_t i = 0; i < program->outputs().size(); ++i)
        ASSERT_EQ(copy(binding.output(i)), expected[i]) << "output " << i << " at T = " << t;
      ASSERT_EQ(inputs["cache"], expected.back()) << "the state at T = " << t;
      ASSERT_TRUE(inputs["x0"] == x0 && inputs["x1"] == x1) << "an input was written to";
    }
  }
}

}  // namespace
}  // namespace quern::plan
