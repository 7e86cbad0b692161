// Every snippet of data/*.json against what jinja2 made of it (make_oracle.py).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "templates/template.h"

namespace quern::templates {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(QUERN_SOURCE_DIR) + "/tests/templates/data/" + name + ".json");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Oracle : public testing::TestWithParam<const char*> {};

TEST_P(Oracle, says_what_we_say) {
  Heap heap;
  const Value context = parse_json(heap, file("context")), cases = parse_json(heap, file(GetParam()));
  ASSERT_GT(cases.list->size, 10u);
  Budget budget;
  budget.now = 1767225845;
  for (std::size_t i = 0; i < cases.list->size; ++i) {
    const Dict& one = *cases.list->at(i).dict;
    const std::string source(one.find("source")->text());
    const Value* want = one.find("text");
    try {
      const std::string got = Template(source).render(context, budget);
      if (want) {
        EXPECT_EQ(got, want->text()) << source;
      } else {
        ADD_FAILURE() << source << "\n  should fail: " << one.find("error")->text() << "\n  and gives: " << got;
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), Code::internal) << source;
      if (want) ADD_FAILURE() << source << "\n  fails: " << error.what() << "\n  and should give: " << want->text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Snippets, Oracle,
                         testing::Values("statements", "expressions", "filters", "tests", "methods", "whitespace", "changing", "objects",
                                         "completeness"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace quern::templates
