// Renders templates for the conformance script: JSON lines {"source": …, "context": …, "now": …} on stdin, {"text": …} or {"error": …} on
// stdout.
#include <iostream>
#include <string>

#include "templates/template.h"

using namespace quern::templates;

namespace {

Value answer(Heap& heap, const std::string& line) {
  Dict* result = make_dict(heap);
  try {
    const Value job = parse_json(heap, line);
    Budget budget;
    if (const Value* now = job.dict->find("now")) budget.now = now->integer;
    const Template chat{std::string(job.dict->find("source")->text())};
    set(heap, *result, "text", make_string(heap, chat.render(*job.dict->find("context"), budget)));
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
