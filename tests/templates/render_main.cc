// Renders templates for the conformance and speed scripts: JSON lines {"source": …, "context": …, "now": …} on stdin, {"text": …} or
// {"error": …} on stdout. "milliseconds" is the budget of time. With "times": N also "seconds", the least time of one render of N, without
// compiling.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>

#include "templates/template.h"

using namespace quern::templates;

namespace {

double fastest(const Template& chat, const Value& context, const Budget& budget, std::int64_t times) {
  double best = 1e9;
  for (std::int64_t i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    chat.render(context, budget);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

Value answer(Heap& heap, const std::string& line) {
  Dict* result = make_dict(heap);
  try {
    const Value job = parse_json(heap, line);
    const Value& context = *job.dict->find("context");
    Budget budget;
    if (const Value* now = job.dict->find("now")) budget.now = now->integer;
    if (const Value* time = job.dict->find("milliseconds")) budget.time = std::chrono::milliseconds(time->integer);
    const Template chat{std::string(job.dict->find("source")->text())};
    set(heap, *result, "text", make_string(heap, chat.render(context, budget)));
    if (const Value* times = job.dict->find("times"))
      set(heap, *result, "seconds", Value::of(fastest(chat, context, budget, times->integer)));
  } catch (const quern::Error& error) {
    set(heap, *result, "error", make_string(heap, error.what()));
  }
  return Value::of(result);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Heap heap;
    std::cout << to_json(answer(heap, line)) << std::endl;
  }
}
