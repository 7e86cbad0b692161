#pragma once

#include <map>
#include <string>

#include "formats/npy/npy.h"
#include "ir/graph.h"

namespace quern::onnx::test {

using Arrays = std::map<std::string, npy::Array>;

/// Runs a graph node by node on the reference kernels: binds the symbols by the inputs' shapes, evaluates every value's dimensions,
/// computes. Frees each value after its last use. Throws Error when an input is missing or does not fit.
Arrays evaluate(const ir::Graph& graph, const Arrays& inputs);

/// The largest difference of two arrays of one type and shape over the range of the second; infinity when they do not compare.
double relative_difference(const npy::Array& got, const npy::Array& expected);
/// The cosine of the angle between two f32 arrays.
double cosine(const npy::Array& got, const npy::Array& expected);

}  // namespace quern::onnx::test
