#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

// A few tiny ops for the tests of the graph itself; nothing runs them.
namespace quern::ir::test {

inline void same_as_first(InferContext& c) { c.set_output(0, c.type(0)); }

inline void infer_add(InferContext& c) {
  if (!(c.type(0) == c.type(1))) c.fail("the inputs are " + to_string(c.type(0)) + " and " + to_string(c.type(1)));
  c.set_output(0, c.type(0));
}

inline void infer_split(InferContext& c) {
  Type part = c.type(0);
  const auto axis = static_cast<std::size_t>(c.axis(c.node().integer("axis"), c.rank(0)));
  const std::int64_t parts = c.node().integer("outputs");
  part.shape[axis] = floor_div(part.shape[axis], parts);
  for (std::int64_t i = 0; i < parts; ++i) c.set_output(static_cast<std::size_t>(i), part);
}

inline void infer_shape_of(InferContext& c) {
  c.set_output(0, {DType::i64, {c.rank(0)}});
  c.set_contents(0, c.shape(0));
}

inline void infer_reshape(InferContext& c) { c.set_output(0, {c.dtype(0), c.required_contents(1)}); }

inline void infer_required(InferContext& c) {
  c.node().integer("axis");
  same_as_first(c);
}

inline void infer_overwrite(InferContext& c) {
  Type state = c.type(0);
  c.set_output(0, state);
}

inline void infer_choose(InferContext& c) {
  const auto& regions = c.node().regions;
  if (regions.size() != 2) c.fail("takes two regions, not " + std::to_string(regions.size()));
  for (const auto& region : regions)
    if (region->outputs().size() != 1) c.fail("a region gives " + std::to_string(region->outputs().size()) + " values, not 1");
  c.set_output(0, regions[0]->outputs()[0]->type);
}

inline void nothing(InferContext&) {}

inline const Op add{
    .name = "add", .min_inputs = 2, .max_inputs = 2, .attributes = {}, .infer = infer_add, .traits = Trait::pure | Trait::elementwise};
inline const Op maybe{.name = "maybe", .min_inputs = 1, .max_inputs = 3, .attributes = {}, .infer = same_as_first};
inline const Op split{.name = "split",
                      .outputs = Op::kVariadic,
                      .attributes = {{"axis", std::int64_t{0}}, {"outputs", std::int64_t{2}}},
                      .infer = infer_split};
inline const Op shape_of{.name = "shape_of", .attributes = {}, .infer = infer_shape_of};
inline const Op reshape{.name = "reshape", .min_inputs = 2, .max_inputs = 2, .attributes = {}, .infer = infer_reshape};
inline const Op configure{.name = "configure",
                          .attributes = {{"integer", std::int64_t{1}},
                                         {"number", 1.0},
                                         {"text", std::string("default")},
                                         {"type", DType::f32},
                                         {"integers", std::vector<std::int64_t>{1, 2}},
                                         {"numbers", std::vector<double>{0.5}},
                                         {"texts", std::vector<std::string>{"a"}}},
                          .infer = same_as_first};
inline const Op required{.name = "required", .attributes = {{"axis", {}}}, .infer = infer_required};
inline const Op print{
    .name = "print", .min_inputs = 0, .max_inputs = Op::kVariadic, .outputs = 0, .attributes = {}, .infer = nothing, .traits = Trait::none};
inline const Op overwrite{.name = "overwrite",
                          .min_inputs = 2,
                          .max_inputs = 2,
                          .attributes = {},
                          .infer = infer_overwrite,
                          .traits = Trait::pure | Trait::writes_state};
inline const Op choose{.name = "if", .attributes = {}, .infer = infer_choose};

/// The op of that name, or null.
inline const Op* find(std::string_view name) {
  for (const Op* op : {&add, &maybe, &split, &shape_of, &reshape, &configure, &required, &print, &overwrite, &choose})
    if (op->name == name) return op;
  return nullptr;
}

}  // namespace quern::ir::test
