#include "ir/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "ir/verify.h"
#include "test_ops.h"

namespace quern::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Stands for a file of weights: any name, zeros of the size asked for.
std::shared_ptr<const Constant> any_weight(std::string_view name, const Type& type) {
  const std::int64_t size = byte_size(type).constant().value_or(-1);
  if (size < 0 || size > 1 << 20) return nullptr;
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  return std::make_shared<Constant>(Constant{std::string(name), bytes->data(), bytes->size(), bytes});
}

std::unique_ptr<Graph> parse(std::string_view text) { return parse_graph(text, test::find, any_weight); }

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Everything that makes two graphs the same, compared field by field.
void expect_same(const Graph& a, const Graph& b) {
  const auto same_values = [](std::span<Value* const> x, std::span<Value* const> y) {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i] == nullptr, y[i] == nullptr);
      if (x[i] == nullptr) continue;
      EXPECT_EQ(x[i]->name, y[i]->name);
      EXPECT_EQ(x[i]->type, y[i]->type);
      EXPECT_EQ(x[i]->contents, y[i]->contents);
      ASSERT_EQ(x[i]->constant == nullptr, y[i]->constant == nullptr);
      if (x[i]->constant == nullptr) continue;
      EXPECT_EQ(x[i]->constant->name, y[i]->constant->name);
      ASSERT_EQ(x[i]->constant->bytes, y[i]->constant->bytes);
      EXPECT_EQ(std::memcmp(x[i]->constant->data, y[i]->constant->data, x[i]->constant->bytes), 0) << x[i]->name;
    }
  };
  EXPECT_EQ(a.name(), b.name());
  same_values(a.inputs(), b.inputs());
  same_values(a.constants(), b.constants());
  same_values(a.outputs(), b.outputs());
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (std::size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &m = *a.nodes()[i], &n = *b.nodes()[i];
    EXPECT_EQ(m.op, n.op);
    EXPECT_EQ(m.name, n.name);
    same_values(m.inputs, n.inputs);
    same_values(m.outputs, n.outputs);
    ASSERT_EQ(m.attributes.size(), n.attributes.size());
    for (auto p = m.attributes.begin(), q = n.attributes.begin(); p != m.attributes.end(); ++p, ++q) {
      EXPECT_EQ(p->first, q->first);
      ASSERT_EQ(p->second.index(), q->second.index()) << p->first;
      const auto same_bits = [](double x, double y) { EXPECT_EQ(std::bit_cast<std::uint64_t>(x), std::bit_cast<std::uint64_t>(y)); };
      if (const auto* number = std::get_if<double>(&p->second)) {
        same_bits(*number, std::get<double>(q->second));
      } else if (const auto* numbers = std::get_if<std::vector<double>>(&p->second)) {
        const auto& others = std::get<std::vector<double>>(q->second);
        ASSERT_EQ(numbers->size(), others.size());
        for (std::size_t k = 0; k < numbers->size(); ++k) same_bits((*numbers)[k], others[k]);
      } else {
        EXPECT_EQ(p->second, q->second) << p->first;
      }
    }
    ASSERT_EQ(m.regions.size(), n.regions.size());
    for (std::size_t k = 0; k < m.regions.size(); ++k) expect_same(*m.regions[k], *n.regions[k]);
  }
}

void expect_round_trip(const Graph& g) {
  const std::string text = to_text(g);
  SCOPED_TRACE(text);
  const auto again = parse(text);
  EXPECT_EQ(to_text(*again), text);
  expect_same(g, *again);
}

TEST(Text, a_graph_prints_as_documented) {
  constexpr std::string_view kText = R"(graph main(%ids: i32[T], %cache: state f16[blocks, 3, 16, 64]) {
  %w = constant "blk.0.attn_q.weight": q4_1[576, 576]
  %c = constant: i64[3] = [1, 2, 3]
  %half = constant: f32[] = 0.5
  %x = configure(%ids) {number = 1e-05, text = "fast"} : i32[T]
  %v7 = maybe @"my node"(%x, _, %c) : i32[T]
  %a, %b = split(%v7) : i32[div(T, 2)], i32[div(T, 2)]
  %next = overwrite(%cache, %a) : state f16[blocks, 3, 16, 64]
  print(%w, %half)
  return %b, %next
}
)";
  const auto g = parse(kText);
  verify(*g);
  EXPECT_EQ(to_text(*g), kText);
  EXPECT_EQ(g->nodes()[0]->name, "x");
  EXPECT_EQ(g->nodes()[1]->name, "my node");
  EXPECT_EQ(g->constants()[1]->contents, (std::vector<Dim>{1, 2, 3}));
  expect_round_trip(*g);
}

TEST(Text, regions_nest_and_see_the_values_around_them) {
  constexpr std::string_view kText = R"(graph main(%cond: boolean[], %x: f32[T]) {
  %z = if(%cond) : f32[T] {
    graph then() {
      %k = constant: f32[] = 1.0
      %inner = if(%cond) : f32[T] {
        graph then() {
          %deep = add(%x, %x) : f32[T]
          return %deep
        }
        graph else() {
          return %x
        }
      }
      return %inner
    }
    graph else() {
      %twice = add(%x, %x) : f32[T]
      return %twice
    }
  }
  return %z
}
)";
  const auto g = parse(kText);
  verify(*g);
  EXPECT_EQ(to_text(*g), kText);
  EXPECT_EQ(g->nodes()[0]->regions[1]->parent(), g.get());
  EXPECT_EQ(g->nodes()[0]->regions[1]->nodes()[0]->inputs[0], g->inputs()[1]);
  expect_round_trip(*g);
}

TEST(Text, types_line_breaks_and_comments_are_the_writers_choice) {
  const auto g =
      parse("graph g(%x:f32[4],%c:boolean[]){// a comment\n%y=add(%x,%x) %z=if(%c){graph a(){return %x}graph b(){return %y}}return %z}");
  EXPECT_EQ(to_text(*g), R"(graph g(%x: f32[4], %c: boolean[]) {
  %y = add(%x, %x) : f32[4]
  %z = if(%c) : f32[4] {
    graph a() {
      return %x
    }
    graph b() {
      return %y
    }
  }
  return %z
}
)");
}

TEST(Text, an_empty_graph_has_a_text) { EXPECT_EQ(to_text(Graph("")), "graph \"\"() {\n  return\n}\n"); }

TEST(Text, long_signatures_stand_one_input_a_line) {
  Graph g;
  for (int i = 0; i < 20; ++i) g.add_input("", {DType::f32, {Dim::symbol("T"), 4}});
  EXPECT_TRUE(to_text(g).starts_with("graph main(\n    %v0: f32[T, 4],\n    %v1: f32[T, 4],\n")) << to_text(g);
  expect_round_trip(g);
}

TEST(Text, every_kind_of_attribute_keeps_its_type_and_value) {
  const std::vector<Attributes> cases = {
      {},  // defaults
      {{"integer", std::numeric_limits<std::int64_t>::min()}, {"integers", std::vector<std::int64_t>{}}},
      {{"integer", std::numeric_limits<std::int64_t>::max()}, {"integers", std::vector<std::int64_t>{-1, 0}}},
      {{"number", 3.0}, {"numbers", std::vector<double>{}}, {"texts", std::vector<std::string>{}}},
      {{"number", -0.0}, {"numbers", std::vector<double>{1.0, 0.1, 1e300, 5e-324, 1.0 / 3}}},
      {{"number", kInf}, {"numbers", std::vector<double>{-kInf, std::nan("")}}},
      {{"number", std::bit_cast<double>(0xfff8000000000001u)}, {"numbers", std::vector<double>{std::nan("5"), -std::nan("")}}},
      {{"text", std::string()}, {"type", DType::q4_K}, {"texts", std::vector<std::string>{"a, \"b\"", "c\\n", "", "\n\t\r\x7f"}}},
      {{"text", std::string("größe ☃ \xff\xc0\x80\xed\xa0\x80 end \0x", 26)}, {"type", DType::boolean}},
  };
  Graph g;
  Value* x = g.add_input("x", {DType::f32, {}});
  for (const Attributes& attributes : cases) g.append(test::configure, {x}, attributes);
  for (const Attribute& value : {Attribute(std::int64_t{5}), Attribute(std::int64_t{-5})}) g.append(test::required, {x}, {{"axis", value}});
  expect_round_trip(g);
  EXPECT_NE(to_text(g).find("{number = 3.0, numbers = floats[], texts = strings[]}"), std::string::npos) << to_text(g);
  EXPECT_NE(to_text(g).find("größe ☃ \\xff\\xc0\\x80\\xed\\xa0\\x80"), std::string::npos) << to_text(g);
}

TEST(Text, names_of_any_bytes_survive) {
  Graph g("a graph: \"main\"");
  Value* x = g.add_input("/encoder/layer.0/MatMul:0", {DType::f32, {}});
  Value* y = g.append(test::add, {x, x}, {}, "ünïcode // \x01 %_")->outputs[0];
  Node* n = g.append(test::split, {g.add_input("0", {DType::f32, {2}})}, {}, "split");
  g.rename(n->outputs[0], "split.1 ");
  g.rename(n->outputs[1], "split");
  g.rename(n->outputs[0], "split.1");  // each output now has the name that the other would be given
  g.append(test::add, {y, y}, {}, "v3");
  g.append(test::add, {y, y}, {}, "x")->name = "";
  g.append(test::print, {}, {}, "named, without outputs");
  g.set_outputs({y, n->outputs[0]});
  expect_round_trip(g);
}

TEST(Text, made_up_names_do_not_collide_with_written_ones) {
  const auto g =
      parse("graph main(%x: f32[2]) { %v3 = add(%x, %x) %v2 = add(%v3, %v3) %x_1 = add @x(%x, %x) %v1 = add(%x, %x) return %v1 }");
  expect_round_trip(*g);
  EXPECT_EQ(g->nodes()[0]->name, "");
  EXPECT_EQ(g->nodes()[2]->name, "x");
}

template <class Element>
Value* add_list(Graph& g, DType dtype, const std::vector<Element>& elements) {
  return g.add_constant("", {dtype, {static_cast<std::int64_t>(elements.size())}}, std::as_bytes(std::span(elements)));
}

TEST(Text, constants_of_every_type_keep_their_bits) {
  Graph g;
  std::mt19937_64 random(1);
  std::vector<std::uint8_t> noise(64);
  for (std::uint8_t& byte : noise) byte = static_cast<std::uint8_t>(random());
  for (int t = 0; t <= static_cast<int>(DType::a8); ++t) {
    const auto dtype = static_cast<DType>(t);
    const std::int64_t count = is_block(dtype) ? 2 * block_elements(dtype) : 64 / block_bytes(dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(byte_size({dtype, {count}}).constant().value()));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    g.add_constant("", {dtype, {count}}, bytes);
  }
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  add_list(g, DType::f16, all);
  add_list(g, DType::bf16, all);
  std::vector<std::uint32_t> floats(10000);
  for (auto& f : floats) f = static_cast<std::uint32_t>(random());
  floats.insert(floats.end(),
                {0u, 0x80000000u, 1u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7f7fffffu, 0x00800000u});
  add_list(g, DType::f32, floats);
  std::vector<std::uint64_t> doubles(10000);
  for (auto& d : doubles) d = random();
  add_list(g, DType::f64, doubles);
  add_list(g, DType::i64, std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()});
  add_list(g, DType::u64, std::vector<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()});
  g.add_constant("", {DType::f32, {0}}, {});
  g.add_constant("", {DType::f32, {2, 0}}, {});
  g.add_scalar(0.1f);
  const std::string text = to_text(g);
  const auto again = parse(text);
  EXPECT_EQ(to_text(*again), text);
  expect_same(g, *again);
}

TEST(Text, constants_are_written_out_when_small_or_nameless_and_named_otherwise) {
  Graph g;
  g.add_constant("small", {DType::f32, {2}}, std::vector<std::byte>(8));
  g.add_constant("large", {DType::u8, {65}}, std::vector<std::byte>(65));
  g.add_constant("packed", {DType::q4_0, {32}}, std::vector<std::byte>(18));
  g.add_constant("more", {DType::q4_0, {96}}, std::vector<std::byte>(54));
  g.add_constant("small", {DType::u8, {1}}, std::vector<std::byte>(1));
  g.rename(g.add_constant("", {DType::u8, {}}, std::vector<std::byte>(1)), "named value");
  EXPECT_EQ(to_text(g), R"(graph main() {
  %small = constant: f32[2] = [0.0, 0.0]
  %large = constant "large": u8[65]
  %packed = constant: q4_0[32] = hex "000000000000000000000000000000000000"
  %more = constant "more": q4_0[96]
  %small_1 = constant "small": u8[1] = [0]
  %"named value" = constant "": u8[] = 0
  return
}
)");
  expect_round_trip(g);
}

TEST(Text, a_constant_takes_the_bytes_that_the_lookup_gives) {
  const std::vector<std::byte> bytes(400, std::byte{7});
  const auto lookup = [&](std::string_view name, const Type& type) {
    EXPECT_EQ(name, "weight");
    EXPECT_EQ(to_string(type), "f32[100]");
    return std::make_shared<const Constant>(Constant{"weight", bytes.data(), bytes.size(), nullptr});
  };
  const auto g = parse_graph("graph main() { %w = constant \"weight\": f32[100] return %w }", test::find, lookup);
  EXPECT_EQ(g->constants()[0]->constant->data, bytes.data());
}

TEST(Text, errors_say_what_and_where) {
  const auto in_graph = [](const std::string& statement) { return error_of("graph main(%x: f32[4]) {\n  " + statement + "\n}"); };
  EXPECT_EQ(error_of(""), "'graph' was expected (in line 1, column 1)");
  EXPECT_EQ(error_of("graph main() { return } x"), "text after the end of the graph (in line 1, column 25)");
  EXPECT_EQ(error_of("graph main() {\n"), "a statement or 'return' was expected (in line 2, column 1)");
  EXPECT_EQ(error_of("graph main(%x f32[])"), "':' was expected (in line 1, column 15)");
  EXPECT_EQ(error_of("graph main(%x: f99[])"), "there is no element type 'f99' (in line 1, column 16)");
  EXPECT_EQ(error_of("graph main(%x: f32[T +])"), "a size was expected in the size 'T +' (in column 4; in line 1, column 20)");
  EXPECT_EQ(error_of("graph main(%x: f32[1,1,1,1,1,1,1,1,1])"), "a tensor has at most 8 dimensions (in line 1, column 37)");
  EXPECT_EQ(error_of("graph main(%x: f32[-1]) {}"), "a dimension is negative: f32[-1] (in line 1, column 12)");
  EXPECT_EQ(error_of("graph main(%x: f32[], %x: f32[])"), "%x is made twice (in line 1, column 23)");
  EXPECT_EQ(error_of("graph main(%\"\": f32[])"), "a value's name is empty (in line 1, column 12)");
  EXPECT_EQ(in_graph("return %y"), "there is no %y here (in line 2, column 10)");
  EXPECT_EQ(in_graph("%y = nop(%x) return"), "there is no op 'nop' (in line 2, column 8)");
  EXPECT_EQ(in_graph("%y = add(%x, %y) return"), "there is no %y here (in line 2, column 16)");
  EXPECT_EQ(in_graph("%y = add(%x) return"), "add 'y' takes 2 inputs, not 1 (in line 2, column 8)");
  EXPECT_EQ(in_graph("%y, %z = add(%x, %x) return"), "add makes 1 values, not 2 (in line 2, column 12)");
  EXPECT_EQ(in_graph("%y = add(%x, %x) : f32[5] return"), "add makes f32[4], not f32[5] (in line 2, column 22)");
  EXPECT_EQ(in_graph("%y = add(%x, %x) : f32[4], f32[4] return"), "2 types for 1 values (in line 2, column 22)");
  EXPECT_EQ(in_graph("%y = add(%x, 3) return"), "a value or _ was expected (in line 2, column 16)");
  EXPECT_EQ(in_graph("%y = configure(%x) {number = 1} return"),
            "configure 'y': attribute 'number' has the wrong type (in line 2, column 8)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = 1, a = 2} return"), "attribute 'a' is written twice (in line 2, column 30)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = 1x} return"), "'1x' is no value that fits an attribute (in line 2, column 27)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = 99999999999999999999} return"),
            "'99999999999999999999' is no value that fits an attribute (in line 2, column 27)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = 1e999} return"), "'1e999' is no value that fits an attribute (in line 2, column 27)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = [1, 2.0]} return"), "the elements of a list are of one kind (in line 2, column 31)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = []} return"),
            "an empty list is written ints[], floats[] or strings[] (in line 2, column 28)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = \"b} return"), "a line ends inside a string (in line 2, column 37)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = \"\\q\"} return"), "unknown escape in a string (in line 2, column 29)");
  EXPECT_EQ(in_graph("%y = configure(%x) {a = \"\\x1\"} return"), "two hexadecimal digits were expected (in line 2, column 30)");
  EXPECT_EQ(in_graph("%c = constant: i8[2] = [1, 128] return"), "'128' is no element of type i8 (in line 2, column 30)");
  EXPECT_EQ(in_graph("%c = constant: i8[2] = [1] return"), "constant '' of type i8[2] has 1 bytes (in line 2, column 18)");
  EXPECT_EQ(in_graph("%c = constant: f32[T] = [1] return"), "constant '' of type f32[T] has 4 bytes (in line 2, column 18)");
  EXPECT_EQ(in_graph("%c = constant: q8_0[32] = [1] return"),
            "the bytes of a block format are written as hex \"…\" (in line 2, column 29)");
  EXPECT_EQ(in_graph("%y = if(%x) {\n graph a() { %k = add(%x, %x) return %k }\n graph b() { return %k } } return"),
            "there is no %k here (in line 4, column 21)");
  try {
    parse_graph("graph main() { %w = constant \"weight\": f32[100] return }", test::find);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_STREQ(e.what(), "there is no constant \"weight\" (in line 1, column 40)");
  }
}

TEST(Text, hostile_texts_are_refused) {
  std::string nested = "graph main(%x: boolean[]) {";
  for (int i = 0; i < 1000; ++i) nested += " %y" + std::to_string(i) + " = if(%x) { graph a() {";
  EXPECT_TRUE(error_of(nested).starts_with("regions are nested too deeply (in line 1, column ")) << error_of(nested);
  EXPECT_NE(error_of("graph main(%x: f32[" + std::string(100000, '(') + "])"), "no error");
  EXPECT_NE(error_of("graph main(%x: f32[9223372036854775807]) { %c = constant: f32[4611686018427387904, 4] = [] return }"), "no error");
  EXPECT_NE(error_of("graph main(%x: f32[4]) { %y = split(%x) {outputs = 4096} return }"), "no error");
  EXPECT_NE(error_of("graph main(%x: f32[4]) { %y = split(%x) {outputs = 1000000000000} return }"), "no error");
  EXPECT_NE(error_of(std::string("graph main(%x: f32[4]) {\0 return }", 34)), "no error");
  std::string slow_sizes = "graph main(";
  for (int i = 0; slow_sizes.size() < 4'000'000; ++i)
    slow_sizes += "%i" + std::to_string(i) + ": f32[x" + std::to_string(i) + std::string(900, ' ') + "], ";
  EXPECT_TRUE(error_of(slow_sizes).starts_with("the sizes in this text are too large in all")) << error_of(slow_sizes).substr(0, 200);
}

TEST(Text, a_damaged_text_gives_an_error_or_a_graph_that_prints) {
  const std::string text = R"(graph main(%ids: i32[2*T + 4], %cache: state f16[blocks, 3], %cond: boolean[]) {
  %w = constant "blk.0": q4_1[32, 576]
  %c = constant: f32[3] = [1.5, nan(0x7fc00001), -inf]
  %h = constant: q8_0[32] = hex "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0011"
  %x = configure @"n\x01"(%ids) {integers = ints[], number = 1e-05, texts = ["a", "b\n"]} : i32[2*T + 4]
  %a, %b = split(%x, _) {axis = 0} : i32[T + 2], i32[T + 2]
  %z = if(%cond) : i32[T + 2] { graph then() { return %a } graph else() { %d = add(%a, %b) return %d } }
  %next = overwrite(%cache, %a) : state f16[blocks, 3]
  return %z, %next
})";
  expect_round_trip(*parse(text));
  std::mt19937 random(7);
  const std::string alphabet = "%@(){}[]:,=\"\\/._-+*0123456789abcdefgraphxnT \n\x00\xff";
  int whole = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = text;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0: damaged[at] = alphabet[random() % alphabet.size()]; break;
        case 1: damaged.erase(at, 1 + random() % 8); break;
        case 2: damaged.insert(at, 1, alphabet[random() % alphabet.size()]); break;
        default: damaged.insert(at, text.substr(random() % text.size(), random() % 30)); break;
      }
    }
    try {
      const auto g = parse(damaged);
      const std::string printed = to_text(*g);
      ASSERT_EQ(to_text(*parse(printed)), printed) << damaged;
      ++whole;
    } catch (const Error& e) {
      ASSERT_NE(e.code(), Code::internal) << e.what() << "\n" << damaged;
    }
  }
  EXPECT_GT(whole, 50) << "the damage should be slight enough to leave some texts legal";
}

}  // namespace
}  // namespace quern::ir
