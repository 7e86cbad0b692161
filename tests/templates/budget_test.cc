// Templates that mean harm: each ends with an error, soon and in bounded memory.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "templates/template.h"

namespace quern::templates {
namespace {

// Of the processor, which other programs do not change.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The code of the failure; fails the test if there is none or it takes long.
Code failure(const std::string& source, Budget budget = {}) {
  const double start = seconds();
  Heap heap;
  Code code = Code::internal;
  try {
    const std::string text = Template(source).render(Value::of(make_dict(heap)), budget);
    ADD_FAILURE() << "gives " << text.size() << " bytes: " << source.substr(0, 80);
  } catch (const Error& error) {
    code = error.code();
    EXPECT_NE(std::string(error.what()).find("line "), std::string::npos) << error.what();
  }
  EXPECT_LT(seconds() - start, 10) << source.substr(0, 80);
  return code;
}

std::string times(std::size_t n, const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(TemplateBudget, stops_a_huge_range) {
  EXPECT_EQ(failure("{% for i in range(10**9) %}x{% endfor %}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ range(-9223372036854775807, 9223372036854775807) }}"), Code::resource_exhausted);
}

TEST(TemplateBudget, stops_nested_loops) {
  EXPECT_EQ(
      failure("{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"),
      Code::resource_exhausted);
}

TEST(TemplateBudget, stops_a_list_that_grows_while_it_is_read) {
  EXPECT_EQ(failure("{% set l = [1] %}{% for i in l %}{% set _ = l.append(i) %}{% endfor %}"), Code::resource_exhausted);
}

TEST(TemplateBudget, stops_macros_and_loops_that_call_themselves) {
  EXPECT_EQ(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% macro m(a=m()) %}{% endmacro %}{{ m() }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set l = [1] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}"), Code::resource_exhausted);
  EXPECT_EQ(
      failure("{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}"),
      Code::resource_exhausted);
  const std::string deep = times(90, "(") + "m()" + times(90, "|string)");
  EXPECT_EQ(failure("{% macro m() %}{{ " + deep + " }}{% endmacro %}{{ m() }}"), Code::resource_exhausted);
}

TEST(TemplateBudget, stops_text_that_explodes) {
  EXPECT_EQ(failure("{{ 'a' * 10**9 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ 'abc' * 10**18 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ [0] * 10**9 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set ns = namespace(l=[0]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}"),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'a' * 100000 %}{{ s | replace('a', s) | length }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'a' * 100000 %}{{ s | join(s) | length }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s }}{% endfor %}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'a\n' * 100000 %}{{ s | indent(100000) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ '%999999999d' % 1 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ '{:999999999}'.format(1) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ 'a'.center(10**12) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ 'a\tb'.expandtabs(10**12) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ range(100) | batch(10**12, 'x') | list }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set ns = namespace(l=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}"),
            Code::resource_exhausted);
}

TEST(TemplateBudget, stops_values_that_hold_themselves) {
  EXPECT_EQ(failure("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}"), Code::invalid_argument);
  EXPECT_EQ(failure("{% set l = [] %}{% set m = [] %}{% set _ = l.append(m) %}{% set _ = m.append(l) %}{{ l == [[l]] and l < m }}"),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}"),
            Code::resource_exhausted);
}

TEST(TemplateBudget, stops_slow_work_by_the_clock) {
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  EXPECT_EQ(failure("{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{{ 'b' in s }}{% endfor %}", budget),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'é' * 5000000 %}{% for i in range(100000) %}{{ s[4000000] }}{% endfor %}", budget),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set s = 'a' * 10000000 %}{% for i in range(100000) %}{{ s.strip('b').count('b') }}{% endfor %}", budget),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{% set l = range(100000) | list %}{% for i in range(100000) %}{{ -1 in l }}{{ l == l + [] }}{% endfor %}", budget),
            Code::resource_exhausted);
}

// Values that share their parts are small in memory and huge to walk.
TEST(TemplateBudget, stops_comparisons_of_values_that_share_their_parts) {
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  const auto doubled = [](const std::string& open, const std::string& close, const std::string& use) {
    std::string out = "{% set n = namespace(x=" + open + "1, 1" + close + ", y=" + open + "1, 1" + close + ") %}{% for i in range(60) %}";
    for (const std::string name : {"n.x", "n.y"}) out += "{% set " + name + " = " + open + name + ", " + name + close + " %}";
    return out + "{% endfor %}" + use;
  };
  for (const std::string use :
       {"{{ n.x == n.y }}", "{{ n.x != n.y }}", "{{ n.x < n.y }}", "{{ [n.x, n.y] | sort | length }}", "{{ n.x in [n.y] }}",
        "{{ [n.x].index(n.y) }}", "{{ [n.x].count(n.y) }}", "{{ [n.x, n.y] | max | length }}", "{{ n.x is eq(n.y) }}"})
    EXPECT_EQ(failure(doubled("[", "]", use), budget), Code::resource_exhausted) << use;
  for (const std::string use : {"{{ {n.x: 1} }}", "{{ {}[n.x] }}", "{{ [n.x, n.y] | unique | list | length }}", "{{ {}.get(n.x) }}"})
    EXPECT_EQ(failure(doubled("(", ")", use), budget), Code::resource_exhausted) << use;
}

TEST(TemplateBudget, stops_a_dict_of_keys_that_all_have_one_hash) {
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  EXPECT_EQ(
      failure("{% set l = [] %}{% for i in range(60000) %}{% set _ = l.append(namespace()) %}{% endfor %}{{ l | unique | list | length }}",
              budget),
      Code::resource_exhausted);
}

TEST(TemplateBudget, many_named_arguments_take_no_square_of_their_number) {
  std::string named;
  for (int i = 0; i < 100000; ++i) named += (i == 0 ? "a" : ",a") + std::to_string(i) + "=1";
  const double start = seconds();
  Heap heap;
  EXPECT_EQ(Template("{{ dict(" + named + ") | length }}").render(Value::of(make_dict(heap))), "100000");
  EXPECT_LT(seconds() - start, 5);
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  EXPECT_EQ(failure("{% macro m(" + named + ") %}{% endmacro %}{{ m(" + named + ") }}", budget), Code::resource_exhausted);
}

TEST(TemplateBudget, stops_huge_integers) {
  EXPECT_EQ(failure("{{ 10 ** (10 ** 10) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x }}"),
            Code::resource_exhausted);
  EXPECT_EQ(failure("{{ ('9' * 1000000) | int(0, 16) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ '{:01000000000,d}'.format(1) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ '{:01000000,d}'.format(10 ** 300) }}{{ 1 // 0 }}"), Code::invalid_argument);
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  EXPECT_EQ(
      failure("{% set x = 7 ** 20000 %}{% set y = 3 ** 10000 %}{% for i in range(100000) %}{{ (x // y) % 2 }}{{ x * y > 1 }}{% endfor %}",
              budget),
      Code::resource_exhausted);
}

TEST(TemplateBudget, holds_inside_of_one_filter_or_method) {
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  const auto again = [](const std::string& use) { return "{% for i in range(100000) %}{% set _ = " + use + " %}{% endfor %}"; };
  for (const std::string use : {"s | urlize", "s | pprint", "s | wordwrap(3)", "s | striptags", "s | urlencode", "s | wordcount",
                                "s.upper() is upper", "s.isprintable()", "s.swapcase()", "s | tojson", "s | truncate(5)",
                                "s.translate({97: 'b'})", "s | batch(3)", "s[::-1]", "s.format(1)", "s.isascii()"})
    EXPECT_EQ(failure("{% set s = 'ab@c.de' * 300000 %}" + again(use), budget), Code::resource_exhausted) << use;
  for (const std::string use :
       {"d.keys() == d.copy().keys()", "d.items() == d.copy().items()", "d | dictsort", "d | tojson(sort_keys=true)", "d == d.copy()",
        "dict(**d)", "d.keys().isdisjoint([1] * 30000)", "d | pprint"})
    EXPECT_EQ(failure("{% set d = {} %}{% for i in range(30000) %}{% set _ = d.update({'k' ~ i: i}) %}{% endfor %}" + again(use), budget),
              Code::resource_exhausted)
        << use;
  EXPECT_EQ(failure("{{ [1] | tojson(indent=10**9) }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ [1] | slice(10**9) | list }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ ('a' * 10000000) | wordwrap(1, true, 'x' * 1000) | length }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ '%.*s' % (10**9, 'x') }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}"), Code::resource_exhausted);
}

TEST(TemplateBudget, many_branches_take_no_square_of_the_names_they_set) {
  std::string source;
  for (int i = 0; i < 20000; ++i)
    source += "{% if a %}{% set n" + std::to_string(i) + " = 1 %}{% elif b %}{{ n" + std::to_string(i / 2) + " }}{% endif %}";
  const double start = seconds();
  const Template chat(source);
  EXPECT_LT(seconds() - start, 5);
}

TEST(TemplateBudget, counts_what_generators_remember) {
  EXPECT_EQ(
      failure("{% for i in range(99999) %}{% set x = 5 | map('upper') %}{% set y = 5 | select %}{% set z = 5 | reject %}{% endfor %}"
              "{% for i in range(99999) %}{% set x = 5 | map('upper') %}{% set y = 5 | select %}{% set z = 5 | reject %}{% endfor %}"),
      Code::resource_exhausted);
  EXPECT_EQ(failure("{{ ('a ' * 20000000) | wordwrap(1) | length }}"), Code::resource_exhausted);
}

TEST(TemplateBudget, searches_texts_in_time_that_grows_with_their_size_alone) {
  const std::string many = "{% set a = 'a' * 2000000 %}{% set m = 'a' * 1000000 %}{% set b = m ~ 'b' %}{% set c = 'b' ~ m %}";
  const double start = seconds();
  Heap heap;
  EXPECT_EQ(
      Template(many + "{{ a.find(b) }} {{ a.rfind(c) }} {{ b in a }} {{ a.count(b) }} {{ a.split(b) | length }} {{ a.rsplit(c) | length }} "
                      "{{ a.partition(b)[1] }}{{ a.rpartition(c)[1] }}{{ a.replace(b, '') | length }}")
          .render(Value::of(make_dict(heap))),
      "-1 -1 False 0 1 1 2000000");
  EXPECT_LT(seconds() - start, 5);
  Budget budget;
  budget.time = std::chrono::milliseconds(200);
  EXPECT_EQ(failure(many + "{{ a.strip(c.replace('a', 'c') ~ 'a') }}", budget), Code::resource_exhausted);
}

TEST(TemplateBudget, holds_for_what_the_caller_allows) {
  Budget budget;
  budget.steps = 100;
  EXPECT_EQ(failure("{% for i in range(200) %}x{% endfor %}", budget), Code::resource_exhausted);
  budget = {};
  budget.output_bytes = 10;
  EXPECT_EQ(failure("0123456789a", budget), Code::resource_exhausted);
}

TEST(TemplateParser, stops_deep_nesting) {
  EXPECT_EQ(failure("{{ " + times(100000, "(") + "1" + times(100000, ")") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "[")), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "{1:")), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "not ") + "1 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "- ") + "1 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ a" + times(100000, ".b") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ a" + times(100000, "|e") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ a" + times(100000, "()") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ a" + times(100000, "[0]") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ a" + times(100000, " - a") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "f(") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "a is eq a[") + " }}"), Code::resource_exhausted);
  EXPECT_EQ(failure("{{ " + times(100000, "1 if 1 else ") + "1 }}"), Code::resource_exhausted);
  EXPECT_EQ(failure(times(100000, "{% if 1 %}")), Code::resource_exhausted);
  EXPECT_EQ(failure(times(100000, "{% for x in y %}")), Code::resource_exhausted);
  EXPECT_EQ(failure("{% for " + times(100000, "(")), Code::resource_exhausted);
}

TEST(TemplateParser, takes_long_flat_templates) {
  Heap heap;
  const Value empty = Value::of(make_dict(heap));
  EXPECT_EQ(Template("{{ ''" + times(10000, " + 'a'") + " }}").render(empty).size(), 10000u);
  EXPECT_EQ(Template("{{ 1" + times(10000, " and 1") + " }}").render(empty), "1");
  EXPECT_EQ(Template("{% if 0 %}" + times(5000, "{% elif 0 %}") + "{% else %}x{% endif %}").render(empty), "x");
  EXPECT_EQ(Template(times(10000, "{{ 1 }}")).render(empty).size(), 10000u);
}

TEST(TemplateParser, stops_ten_megabytes_of_opening_braces) {
  EXPECT_EQ(failure(times(5000000, "{{")), Code::resource_exhausted);
  EXPECT_EQ(failure(times(5000000, "{%")), Code::invalid_argument);
  EXPECT_EQ(failure(times(3000000, "{{1}}")), Code::resource_exhausted);
  EXPECT_EQ(failure("{% raw %}" + times(1000000, "{% endraw")), Code::invalid_argument);
}

TEST(TemplateParser, reads_many_conditionals_in_time_that_grows_with_their_number) {
  const double start = seconds();
  const Template chat(times(100000, "{{ a if b }}\n"));
  EXPECT_LT(seconds() - start, 5);
}

TEST(TemplateParser, says_line_and_column) {
  const auto message = [](const std::string& source) {
    Heap heap;
    try {
      Template(source, "chat template").render(Value::of(make_dict(heap)));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("a\n  {{ é + }}"), "unexpected 'end of print statement' (in chat template, line 2, column 10)");
  EXPECT_EQ(message("a\nb {{ messages[0] }}"), "'messages' is undefined (in chat template, line 2, column 14)");
  EXPECT_EQ(message("\n\n   {{ raise_exception('no tools') }}"), "no tools (in chat template, line 3, column 22)");
  EXPECT_EQ(message("{{ 'x' | shout }}"), "No filter named 'shout'. (in chat template, line 1, column 10)");
}

}  // namespace
}  // namespace quern::templates
