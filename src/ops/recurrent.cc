// Recurrent layers. Canonical meaning: ONNX LSTM-14, GRU-14, RNN-14, with the activations Sigmoid, Tanh and Relu.
// Inputs: x, W [D, gates * H, I], R [D, gates * H, H], bias [D, 2 * gates * H], lengths [B], initial_h (, initial_c, peepholes [D, 3 * H]).
// Outputs: y, y_h (, y_c). layout 0: x [S, B, I], y [S, D, B, H], states [D, B, H]; layout 1: x [B, S, I], y [B, S, D, H], states [B, D,
// H].
#include <cmath>

#include "ops/detail/elementwise.h"
#include "ops/registry.h"

namespace quern::ops {
namespace {
using namespace detail;
using ir::Call;
using ir::Op;
using Texts = std::vector<std::string>;

using Function = double (*)(double);
Function function_named(std::string_view name) {
  if (name == "Sigmoid") return [](double x) { return 1 / (1 + std::exp(-x)); };
  if (name == "Tanh") return [](double x) { return std::tanh(x); };
  if (name == "Relu") return [](double x) { return x < 0 ? 0 : x; };
  return nullptr;
}

const Texts& activations(const ir::Node& n) { return std::get<Texts>(n.attributes.find("activations")->second); }

/// `gates` weight matrices a direction; `functions` of the activations a direction.
void infer_recurrent(InferContext& c, std::int64_t gates, std::size_t functions) {
  const ir::Node& n = c.node();
  check_dtype<Floats>(c, 0);
  check_same_dtype(c, {0, 1, 2, 3, 5, 6, 7});
  for (const std::size_t i : {0u, 1u, 2u}) check_rank(c, i, 3, 3);
  const std::string& direction = n.text("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    c.fail("the direction '" + direction + "' does not exist");
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1, layout = n.integer("layout");
  if (layout != 0 && layout != 1) c.fail("layout is " + std::to_string(layout));
  if (n.number("clip") < 0) c.fail("clip is negative");
  if (const Texts& names = activations(n); !names.empty()) {
    if (names.size() != functions * static_cast<std::size_t>(directions))
      c.fail("there are " + std::to_string(names.size()) + " activations");
    for (const std::string& name : names)
      if (function_named(name) == nullptr) c.fail("the activation '" + name + "' is not supported");
  }
  const Shape& x = c.shape(0);
  const Dim steps = x[layout == 0 ? 0 : 1], batch = x[layout == 0 ? 1 : 0];
  Dim hidden = c.shape(2)[2];
  if (const std::int64_t given = n.integer("hidden_size"); given != 0) hidden = same_size(c, given, hidden);
  const auto expect = [&](std::size_t input, const Shape& wanted) {
    if (!c.has(input)) return;
    check_rank(c, input, static_cast<std::int64_t>(wanted.size()), static_cast<std::int64_t>(wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i) same_size(c, c.shape(input)[i], wanted[i]);
  };
  const Shape state = layout == 0 ? Shape{directions, batch, hidden} : Shape{batch, directions, hidden};
  expect(1, {directions, hidden * Dim(gates), x[2]});
  expect(2, {directions, hidden * Dim(gates), hidden});
  expect(3, {directions, hidden * Dim(2 * gates)});
  if (c.has(4)) check_dtype<Types<std::int32_t>>(c, 4);
  expect(4, {batch});
  expect(5, state);
  expect(6, state);
  expect(7, {directions, hidden * Dim(3)});
  c.set_output(0, Type{c.dtype(0), layout == 0 ? Shape{steps, directions, batch, hidden} : Shape{batch, steps, directions, hidden}});
  for (std::size_t i = 1; i < n.outputs.size(); ++i) c.set_output(i, Type{c.dtype(0), state});
}

/// One sequence in one direction: where its elements lie, and the sums of its gates. Sums are f64; states are stored in the output's type.
template <class T>
struct Lane {
  const Call& call;
  std::int64_t gates, steps, batches, directions, hidden, features, batch, direction;
  bool batch_first;

  Lane(const Call& the_call, std::int64_t the_gates, std::int64_t b, std::int64_t d)
      : call(the_call), gates(the_gates), batch(b), direction(d), batch_first(the_call.node->integer("layout") == 1) {
    const TensorView& x = call.in(0);
    steps = x.dims[batch_first ? 1 : 0];
    batches = x.dims[batch_first ? 0 : 1];
    features = x.dims[2];
    directions = call.in(2).dims[0];
    hidden = call.in(2).dims[2];
  }
  std::int64_t length() const { return call.has(4) ? std::clamp<std::int64_t>(integer_at(call.in(4), batch), 0, steps) : steps; }
  bool backward() const { return direction == 1 || call.node->text("direction") == "reverse"; }
  std::int64_t state(std::int64_t unit) const {
    return (batch_first ? batch * directions + direction : direction * batches + batch) * hidden + unit;
  }
  std::int64_t y(std::int64_t step, std::int64_t unit) const {
    return (batch_first ? (batch * steps + step) * directions + direction : (step * directions + direction) * batches + batch) * hidden +
           unit;
  }
  double x(std::int64_t step, std::int64_t feature) const {
    return double(load<T>(call.in(0).data, (batch_first ? batch * steps + step : step * batches + batch) * features + feature));
  }
  double bias(std::int64_t row) const { return call.has(3) ? double(load<T>(call.in(3).data, direction * 2 * gates * hidden + row)) : 0.0; }
  /// W x of one row of the gates' matrices, with its bias.
  double from_input(std::int64_t row, std::int64_t step) const {
    double sum = bias(row);
    for (std::int64_t i = 0; i < features; ++i)
      sum += x(step, i) * double(load<T>(call.in(1).data, (direction * gates * hidden + row) * features + i));
    return sum;
  }
  /// R h of one row, with its bias; `h` gives the state of a unit.
  template <class H>
  double from_state(std::int64_t row, H&& h) const {
    double sum = bias(gates * hidden + row);
    for (std::int64_t i = 0; i < hidden; ++i)
      sum += h(i) * double(load<T>(call.in(2).data, (direction * gates * hidden + row) * hidden + i));
    return sum;
  }
  double initial(std::size_t input, std::int64_t unit) const {
    return call.has(input) ? double(load<T>(call.in(input).data, state(unit))) : 0.0;
  }
  double clipped(double v) const {
    const double limit = call.node->number("clip");
    return limit > 0 ? std::clamp(v, -limit, limit) : v;
  }
  Function function(std::size_t i, std::size_t count, const char* fallback) const {
    const Texts& names = activations(*call.node);
    return function_named(names.empty() ? fallback : names[static_cast<std::size_t>(direction) * count + i]);
  }
};

/// Runs `step(lane, time, h)` for every sequence, direction and time in its order; h(unit) is the state before the step, and the step
/// writes its own into y. Afterwards y is zero past each sequence's end and y_h holds the last states.
template <class Begin, class Step>
void recur(const Call& call, std::int64_t gates, Begin&& begin, Step&& step) {
  const TensorView& y = call.out(0);
  dispatch(Floats{}, y.dtype, [&]<class T>() {
    const Lane<T> first(call, gates, 0, 0);
    for (std::int64_t d = 0; d < first.directions; ++d)
      for (std::int64_t b = 0; b < first.batches; ++b) {
        const Lane<T> lane(call, gates, b, d);
        const std::int64_t length = lane.length();
        begin(lane);
        std::int64_t previous = -1;  // the time of the state before
        const auto h = [&](std::int64_t unit) {
          return previous < 0 ? lane.initial(5, unit) : double(load<T>(y.data, lane.y(previous, unit)));
        };
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t time = lane.backward() ? length - 1 - i : i;
          step(lane, time, h);
          previous = time;
        }
        for (std::int64_t unit = 0; unit < lane.hidden; ++unit) store<T>(call.out(1).data, lane.state(unit), h(unit));
        for (std::int64_t time = length; time < lane.steps; ++time)
          for (std::int64_t unit = 0; unit < lane.hidden; ++unit) store<T>(y.data, lane.y(time, unit), 0.0);
      }
  });
}

void lstm_reference(const Call& call) {
  const TensorView &y = call.out(0), &cells = call.out(2);
  const bool coupled = call.node->integer("input_forget") != 0;
  recur(
      call, 4,
      [&]<class T>(const Lane<T>& l) {
        for (std::int64_t u = 0; u < l.hidden; ++u) store<T>(cells.data, l.state(u), l.initial(6, u));
      },
      [&]<class T>(const Lane<T>& l, std::int64_t time, auto&& h) {
        const Function f = l.function(0, 3, "Sigmoid"), g = l.function(1, 3, "Tanh"), o = l.function(2, 3, "Tanh");
        const std::int64_t n = l.hidden;
        const auto peephole = [&](std::int64_t row) {
          return call.has(7) ? double(load<T>(call.in(7).data, l.direction * 3 * n + row)) : 0.0;
        };
        for (std::int64_t u = 0; u < n; ++u) {  // the gates lie in the order input, output, forget, cell
          const auto gate = [&](std::int64_t k) { return l.from_input(k * n + u, time) + l.from_state(k * n + u, h); };
          const double cell = double(load<T>(cells.data, l.state(u)));
          const double input = f(l.clipped(gate(0) + peephole(u) * cell));
          const double forget = coupled ? 1 - input : f(l.clipped(gate(2) + peephole(2 * n + u) * cell));
          const double next = forget * cell + input * g(l.clipped(gate(3)));
          store<T>(cells.data, l.state(u), next);
          store<T>(y.data, l.y(time, u), f(l.clipped(gate(1) + peephole(n + u) * next)) * o(next));
        }
      });
}

void gru_reference(const Call& call) {
  const TensorView &y = call.out(0), &scratch = call.out(1);  // y_h holds the reset gates until the last states are known
  const bool reset_late = call.node->integer("linear_before_reset") != 0;
  recur(
      call, 3, [](const auto&) {},
      [&]<class T>(const Lane<T>& l, std::int64_t time, auto&& h) {
        const Function f = l.function(0, 2, "Sigmoid"), g = l.function(1, 2, "Tanh");
        const std::int64_t n = l.hidden;  // the gates lie in the order update, reset, hidden
        for (std::int64_t u = 0; u < n; ++u)
          store<T>(scratch.data, l.state(u), f(l.clipped(l.from_input(n + u, time) + l.from_state(n + u, h))));
        const auto reset = [&](std::int64_t u) { return double(load<T>(scratch.data, l.state(u))); };
        for (std::int64_t u = 0; u < n; ++u) {
          const double update = f(l.clipped(l.from_input(u, time) + l.from_state(u, h)));
          const double recurrent =
              reset_late ? reset(u) * l.from_state(2 * n + u, h) : l.from_state(2 * n + u, [&](std::int64_t i) { return reset(i) * h(i); });
          const double candidate = g(l.clipped(l.from_input(2 * n + u, time) + recurrent));
          store<T>(y.data, l.y(time, u), (1 - update) * candidate + update * h(u));
        }
      });
}

void rnn_reference(const Call& call) {
  const TensorView& y = call.out(0);
  recur(
      call, 1, [](const auto&) {},
      [&]<class T>(const Lane<T>& l, std::int64_t time, auto&& h) {
        const Function f = l.function(0, 1, "Tanh");
        for (std::int64_t u = 0; u < l.hidden; ++u)
          store<T>(y.data, l.y(time, u), f(l.clipped(l.from_input(u, time) + l.from_state(u, h))));
      });
}

std::vector<ir::AttributeSpec> attributes(std::string_view own) {
  std::vector<ir::AttributeSpec> all = {{"activation_alpha", Doubles{}},
                                        {"activation_beta", Doubles{}},
                                        {"activations", Texts{}},
                                        {"clip", 0.0},
                                        {"direction", "forward"},
                                        {"hidden_size", 0},
                                        {"layout", 0}};
  if (!own.empty()) all.push_back({own, 0});
  return all;
}

/// Of the products alone: every token of the sequences meets the weights of all gates, of its input and of its state.
double product_operations(const Call& call) {
  return 2.0 * double(call.in(0).rows()) * double(call.in(1).elements() + call.in(2).elements());
}

}  // namespace

const Op lstm{.name = "lstm",
              .min_inputs = 3,
              .max_inputs = 8,
              .outputs = 3,
              .attributes = attributes("input_forget"),
              .infer = [](InferContext& c) { infer_recurrent(c, 4, 3); },
              .reference = lstm_reference,
              .operations = product_operations};
const Op gru{.name = "gru",
             .min_inputs = 3,
             .max_inputs = 6,
             .outputs = 2,
             .attributes = attributes("linear_before_reset"),
             .infer = [](InferContext& c) { infer_recurrent(c, 3, 2); },
             .reference = gru_reference,
             .operations = product_operations};
const Op rnn{.name = "rnn",
             .min_inputs = 3,
             .max_inputs = 6,
             .outputs = 2,
             .attributes = attributes({}),
             .infer = [](InferContext& c) { infer_recurrent(c, 1, 1); },
             .reference = rnn_reference,
             .operations = product_operations};

}  // namespace quern::ops
