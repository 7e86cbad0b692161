#include "formats/onnx/detail/model.h"

#include <algorithm>
#include <string>

#include "ir/tensor_view.h"

namespace quern::onnx {
namespace {

using wire::Field;
using wire::Reader;
using wire::Source;

template <class T, class U>
void push(const Source& source, const Field& field, std::vector<T>& list, U&& item, std::size_t limit, const char* what) {
  if (list.size() >= limit)
    source.fail(Code::resource_exhausted, std::string("has more than ") + std::to_string(limit) + " " + what, field.position());
  list.push_back(std::forward<U>(item));
}

std::string_view domain_name(std::string_view domain) { return domain == "ai.onnx" ? std::string_view{} : domain; }

DimProto parse_dim(const Source& source, std::string_view body) {
  DimProto out;
  Field f;
  for (Reader reader(source, body); reader.next(f);) {
    if (f.number == 1) {
      out.value = f.integer();
      if (*out.value < 0) source.corrupt("a dimension is negative: " + std::to_string(*out.value), f.position());
    } else if (f.number == 2) {
      out.param = f.text();
    }
  }
  return out;
}

/// TypeProto, of which only tensors are of interest: lists, maps and optionals stay unread, however deep they nest.
void parse_type(const Source& source, std::string_view body, ValueProto& out) {
  Field f;
  for (Reader reader(source, body); reader.next(f);) {
    if (f.number != 1) continue;
    out.is_tensor = true;
    Field g;
    for (Reader tensor(source, f.bytes()); tensor.next(g);) {
      if (g.number == 1) {
        out.data_type = static_cast<std::int32_t>(g.integer());
      } else if (g.number == 2) {
        out.has_shape = true;
        out.dims.clear();
        Field d;
        for (Reader shape(source, g.bytes()); shape.next(d);)
          if (d.number == 1) push(source, d, out.dims, parse_dim(source, d.bytes()), ir::kMaxRank, "dimensions in one tensor");
      }
    }
  }
}

ValueProto parse_value(const Source& source, const Field& field) {
  ValueProto out;
  out.position = field.position();
  Field f;
  for (Reader reader(source, field.bytes()); reader.next(f);) {
    if (f.number == 1) out.name = f.text();
    if (f.number == 2) parse_type(source, f.bytes(), out);
  }
  return out;
}

NodeProto parse_node(const Source& source, const Field& field, std::size_t& names) {
  NodeProto out;
  out.position = field.position();
  Field f;
  for (Reader reader(source, field.bytes()); reader.next(f);) {
    if (f.number == 1 || f.number == 2 || f.number == 5)
      if (++names > kMaxNames)
        source.fail(Code::resource_exhausted, "the nodes have too many inputs, outputs and attributes", f.position());
    switch (f.number) {
      case 1: out.inputs.push_back(f.text()); break;
      case 2: out.outputs.push_back(f.text()); break;
      case 3: out.name = f.text(); break;
      case 4: out.op_type = f.text(); break;
      case 5: out.attributes.push_back(f.bytes()); break;
      case 7: out.domain = domain_name(f.text()); break;
      default: break;
    }
  }
  return out;
}

GraphProto parse_graph(const Source& source, std::string_view body) {
  GraphProto out;
  std::size_t names = 0;
  Field f;
  for (Reader reader(source, body); reader.next(f);) {
    switch (f.number) {
      case 1: push(source, f, out.nodes, parse_node(source, f, names), kMaxNodes, "nodes"); break;
      case 2: out.name = f.text(); break;
      case 5: push(source, f, out.initializers, f.bytes(), kMaxTensors, "initializers"); break;
      case 11: push(source, f, out.inputs, parse_value(source, f), kMaxTensors, "inputs"); break;
      case 12: push(source, f, out.outputs, parse_value(source, f), kMaxPorts, "outputs"); break;
      case 15: out.has_sparse_initializers = true; break;
      default: break;
    }
  }
  return out;
}

}  // namespace

std::int64_t ModelProto::opset() const {
  for (const auto& [domain, version] : opsets)
    if (domain.empty()) return version;
  return 0;
}

ModelProto parse_model(const Source& source) {
  ModelProto out;
  bool graph = false;
  Field f;
  for (Reader reader(source, source.bytes); reader.next(f);) {
    switch (f.number) {
      case 1: out.ir_version = f.integer(); break;
      case 2: out.producer_name = f.text(); break;
      case 3: out.producer_version = f.text(); break;
      case 4: out.domain = f.text(); break;
      case 6: out.doc = f.text(); break;
      case 7:
        if (graph) source.corrupt("the model has two graphs", f.position());
        out.graph = parse_graph(source, f.bytes());
        graph = true;
        break;
      case 8: {
        std::pair<std::string_view, std::int64_t> opset{{}, 0};
        Field g;
        for (Reader inner(source, f.bytes()); inner.next(g);) {
          if (g.number == 1) opset.first = domain_name(g.text());
          if (g.number == 2) opset.second = g.integer();
        }
        const bool repeated = std::any_of(out.opsets.begin(), out.opsets.end(),
                                          [&](const auto& o) { return o.first == opset.first && o.second != opset.second; });
        if (repeated) source.corrupt("two versions of the operator set '" + std::string(opset.first) + "' are asked for", f.position());
        push(source, f, out.opsets, opset, 256, "operator sets");
        break;
      }
      case 25: ++out.functions; break;
      default: break;
    }
  }
  if (!graph) throw Error(Code::data_corrupt, "has no graph: is this an ONNX model?").at(source.path);
  return out;
}

AttributeProto parse_attribute(const Source& source, std::string_view body) {
  AttributeProto out;
  Kind seen = Kind::undefined;  // files of the first versions do not name the kind
  Field f;
  for (Reader reader(source, body); reader.next(f);) {
    switch (f.number) {
      case 1: out.name = f.text(); break;
      case 2:
        out.number = f.number32();
        seen = Kind::number;
        break;
      case 3:
        out.integer = f.integer();
        seen = Kind::integer;
        break;
      case 4:
        out.text = f.bytes();
        seen = Kind::text;
        break;
      case 5:
        out.tensor = f.bytes();
        seen = Kind::tensor;
        break;
      case 6: seen = Kind::graph; break;
      case 7:
        f.floats([&](float v) { out.numbers.push_back(v); });
        seen = Kind::numbers;
        break;
      case 8:
        f.integers([&](std::int64_t v) { out.integers.push_back(v); });
        seen = Kind::integers;
        break;
      case 9:
        out.texts.push_back(f.bytes());
        seen = Kind::texts;
        break;
      case 20: out.kind = static_cast<Kind>(f.integer()); break;
      case 21: out.refers_to_function = true; break;
      default: break;
    }
  }
  if (out.kind == Kind::undefined) out.kind = seen;
  return out;
}

TensorProto parse_tensor(const Source& source, std::string_view body) {
  TensorProto out;
  out.body = body;
  std::int64_t elements = 1;
  Field f;
  for (Reader reader(source, body); reader.next(f);) {
    switch (f.number) {
      case 1:
        f.integers([&](std::int64_t d) {
          if (d < 0) source.corrupt("a tensor has a negative dimension: " + std::to_string(d), f.position());
          push(source, f, out.dims, d, ir::kMaxRank, "dimensions in one tensor");
          if (__builtin_mul_overflow(elements, std::max<std::int64_t>(d, 1), &elements) || elements > (std::int64_t{1} << 58))
            source.corrupt("a tensor's size overflows", f.position());
        });
        break;
      case 2: out.data_type = static_cast<std::int32_t>(f.integer()); break;
      case 3: source.fail(Code::unsupported, "a tensor is stored in segments", f.position());
      case 8: out.name = f.text(); break;
      case 9: out.raw = f.bytes(); break;
      case 13: {
        std::pair<std::string_view, std::string_view> entry;
        Field g;
        for (Reader inner(source, f.bytes()); inner.next(g);) {
          if (g.number == 1) entry.first = g.text();
          if (g.number == 2) entry.second = g.text();
        }
        push(source, f, out.external_data, entry, 64, "entries in one tensor's external data");
        break;
      }
      case 14: out.external = f.integer() == 1; break;
      default: break;
    }
  }
  return out;
}

namespace {
struct DataType {
  std::string_view name;
  std::optional<ir::DType> dtype;
};
using D = ir::DType;
const DataType kDataTypes[] = {  // by number
    {"undefined", {}},      {"float", D::f32},     {"uint8", D::u8},     {"int8", D::i8},        {"uint16", D::u16},
    {"int16", D::i16},      {"int32", D::i32},     {"int64", D::i64},    {"string", {}},         {"bool", D::boolean},
    {"float16", D::f16},    {"double", D::f64},    {"uint32", D::u32},   {"uint64", D::u64},     {"complex64", {}},
    {"complex128", {}},     {"bfloat16", D::bf16}, {"float8e4m3fn", {}}, {"float8e4m3fnuz", {}}, {"float8e5m2", {}},
    {"float8e5m2fnuz", {}}, {"uint4", {}},         {"int4", {}},         {"float4e2m1", {}},     {"float8e8m0", {}}};
bool known(std::int64_t t) { return t >= 0 && t < static_cast<std::int64_t>(std::size(kDataTypes)); }
}  // namespace

std::optional<ir::DType> dtype_of(std::int64_t data_type) { return known(data_type) ? kDataTypes[data_type].dtype : std::nullopt; }
std::string_view data_type_name(std::int64_t data_type) { return known(data_type) ? kDataTypes[data_type].name : "unknown"; }

}  // namespace quern::onnx
