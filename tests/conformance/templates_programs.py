#!/usr/bin/env python3
"""Random whole templates against jinja2: statements that use what others defined, and expressions whose types mostly fit.

  templates_programs.py [--driver build/release/bin/template_render] [--count 20000] [--seed 1] [--errors] [-v]

Where templates_random.py combines every name with every value (most of which is an error somewhere), this one writes templates as people
do: macros with callers, blocks, self and super, nested and recursive loops with all that `loop` has, namespaces, keyword arguments of filters,
slices, both kinds of format strings over their whole grammar, methods of strings, numbers of all sizes, comparisons, white space control.
"""
import random
import sys

import templates_random

CONTEXT = {
    "messages": [{"role": "system", "content": "Be  brief.\n"}, {"role": "user", "content": "Grüße, 日本 🦆 <b> & 'q'"},
                 {"role": "assistant", "content": None, "tool_calls": [{"id": "a1", "function": {"name": "f", "arguments": {"x": 1.50, "y": [True, None], "ß": "é\n"}}}]},
                 {"role": "tool", "content": [{"type": "text", "text": "part one"}, {"type": "image"}], "n": 3}],
    "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "integer", "minimum": -1e-7}}, "required": ["a"]}}}],
    "words": ["pear", "Apple", "fig", "äpfel", "Zoo", "apple", "éclair", "fig"], "numbers": [3, -1, 2.5, 10, 0, 7, 2.5, -0.0], "mixed": [1, "1", None, True, 1.0, [], {}, "", "a", [1, 2]],
    "text": "The quick-brown fox  jumps\tover the lazy-dog's back.\r\nNew line; über-straße, naïve co-op — end\n\n", "empty": "", "one": 1, "big": 2 ** 70, "small": 1e-12, "half": 0.5, "huge": 1.7976931348623157e308,
    "table": {"z": 1, "a": {"k": [1, {"deep": "er"}]}, "M": None, "items": "own", "1": "one"}, "rows": [{"n": "x", "v": 3, "g": "A"}, {"n": "y", "v": 1, "g": "b"}, {"n": "Z", "v": 2, "g": "a"}, {"n": "w", "g": "B"}],
    "bos_token": "<s>", "flag": True, "off": False, "nothing": None, "matrix": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "tree": [{"t": "a", "c": [{"t": "b", "c": []}, {"t": "c", "c": [{"t": "d"}]}]}, {"t": "e"}],
}
TEXTS = ["text", "empty", "bos_token", "words[0]", "messages[1].content", "'abc'", "'a-b c_d'", "\"it's\"", "'ÀÉß'", "'ﬁ Ǆ ǅ'", "'  x y '", "'1,234'", "'aaa'", "'a\\nb\\r\\nc\\x0bd'", "'\\t'", "'%'", "'{}'", "'x' * 5", "'ΑΣ'", "'İı'", "'a\\u0301'", "'1²٣'",
         "'TitleCase Here'", "'http://a.b/c?d=e f'", "'key=value'", "words[-1]", "('x' ~ 1)", "'\\\\'", "'\\x00\\x7f\\u200b'", "'𝟙②Ⅷ'"]
INTEGERS = ["0", "1", "2", "3", "7", "-1", "-5", "42", "255", "1000000", "one", "big", "words | length", "loop.index", "2 ** 31", "-(2 ** 63)", "10 ** 20", "true", "numbers[0]", "1_000", "0x1F", "0b101", "0o17"]
REALS = ["0.5", "2.5", "-2.5", "1.0", "1e16", "1e15", "123456.789", "1e-5", "0.0001", "1/3", "2/3", "1e100", "-0.0", "half", "small", "huge", "huge * 10", "(huge * 10 - huge * 10)", "5e-324", "0.1 + 0.2", "1e22", "9007199254740993.0", "100.0", "2.675", "1.005", "1e23", "3.0e5", "12_3.4_5"]
LISTS = ["words", "numbers", "[1, 2, 3]", "['a', 'b', 'c', 'd', 'e']", "(1, 'x', none)", "[]", "()", "range(4)", "range(5, 0, -2)", "matrix[1]", "words[1:4]", "table.keys()", "table | list", "[[2, 'b'], [1, 'a']]", "'hello'", "mixed", "rows | map(attribute='n') | list", "range(0)", "[3, 1, 2]", "(5,)", "[none, none]", "[true, 2, 0.5]", "['ß', 'ss', 'SS']", "words | map('length') | list"]
DICTS = ["table", "{'a': 1, 'b': 2}", "{}", "dict(x=1, y='2')", "tools[0].function", "{'k': [1, 2], 'j': {'l': none}}", "messages[0]", "{1: 'i', 2.5: 'f', none: 'n', true: 't'}", "{'ä': 'ö', '\\n': '\\t'}", "dict([['p', 1], ['q', 2]])", "{'b': 1, 'A': 2, 'c': 0}", "{(1, 2): 3}"]
ROLES = {"t": TEXTS, "i": INTEGERS, "r": REALS, "l": LISTS, "d": DICTS}
# Filters by the type of what they take: name, and its parameters with what each may be.
KEYWORDS = {
    "t": [("center", {"width": "w"}), ("indent", {"width": "W", "first": "b", "blank": "b"}), ("replace", {"old": "t", "new": "t", "count": "c"}), ("truncate", {"length": "L", "killwords": "b", "end": "e", "leeway": "c"}),
          ("wordwrap", {"width": "L", "break_long_words": "b", "wrapstring": "e", "break_on_hyphens": "b"}), ("trim", {"chars": "e"}), ("upper", {}), ("lower", {}), ("capitalize", {}), ("title", {}), ("wordcount", {}), ("length", {}), ("e", {}),
          ("forceescape", {}), ("striptags", {}), ("urlencode", {}), ("int", {"default": "i", "base": "B"}), ("float", {"default": "r"}), ("list", {}), ("reverse", {}), ("first", {}), ("last", {}), ("string", {}), ("tojson", {"ensure_ascii": "b"}),
          ("pprint", {}), ("safe", {}), ("urlize", {"trim_url_limit": "c", "nofollow": "b", "target": "e", "rel": "e"}), ("default", {"default_value": "t", "boolean": "b"})],
    "i": [("abs", {}), ("round", {"precision": "p", "method": "M"}), ("filesizeformat", {"binary": "b"}), ("string", {}), ("float", {}), ("int", {}), ("tojson", {}), ("pprint", {})],
    "r": [("abs", {}), ("round", {"precision": "p", "method": "M"}), ("filesizeformat", {"binary": "b"}), ("string", {}), ("int", {}), ("float", {}), ("tojson", {}), ("pprint", {})],
    "l": [("join", {"d": "e"}), ("join", {"d": "e", "attribute": "A"}), ("sort", {"reverse": "b", "case_sensitive": "b"}), ("unique", {"case_sensitive": "b"}), ("batch", {"linecount": "n", "fill_with": "v"}), ("slice", {"slices": "n", "fill_with": "v"}),
          ("sum", {"start": "i"}), ("min", {"case_sensitive": "b"}), ("max", {"case_sensitive": "b"}), ("first", {}), ("last", {}), ("length", {}), ("reverse", {}), ("list", {}), ("tojson", {"indent": "I", "separators": "S", "ensure_ascii": "b"}),
          ("pprint", {}), ("string", {}), ("map", None), ("select", None), ("reject", None), ("count", {}), ("random_", None), ("groupby", {"attribute": "A"})],
    "d": [("dictsort", {"case_sensitive": "b", "by": "K", "reverse": "b"}), ("items", {}), ("tojson", {"indent": "I", "separators": "S", "sort_keys": "b", "ensure_ascii": "b"}), ("length", {}), ("list", {}), ("pprint", {}), ("string", {}), ("xmlattr", {"autospace": "b"}),
          ("urlencode", {}), ("first", {}), ("join", {"d": "e"}), ("attr", {"name": "N"}), ("sort", {"reverse": "b"}), ("map", None)],
}
ROWS = ["rows", "messages", "tree", "tools", "rows[1:]", "rows | reverse"]
METHODS = [("split", "?e?c"), ("rsplit", "?e?c"), ("strip", "?e"), ("lstrip", "?e"), ("rstrip", "?e"), ("replace", "ee?c"), ("find", "e?c?c"), ("rfind", "e?c?c"), ("index", "e"), ("rindex", "e?c"), ("count", "e?c?c"), ("startswith", "e?c?c"), ("endswith", "e?c?c"),
           ("upper", ""), ("lower", ""), ("title", ""), ("capitalize", ""), ("swapcase", ""), ("casefold", ""), ("center", "w?f"), ("ljust", "w?f"), ("rjust", "w?f"), ("zfill", "w"), ("expandtabs", "?c"), ("join", "l"), ("partition", "e"), ("rpartition", "e"),
           ("removeprefix", "e"), ("removesuffix", "e"), ("splitlines", "?b"), ("isalpha", ""), ("isalnum", ""), ("isdigit", ""), ("isdecimal", ""), ("isnumeric", ""), ("isspace", ""), ("isupper", ""), ("islower", ""), ("istitle", ""), ("isidentifier", ""), ("isprintable", ""), ("isascii", ""),
           ("encode", "")]
NAMED = {"split": ["sep", "maxsplit"], "rsplit": ["sep", "maxsplit"], "splitlines": ["keepends"], "expandtabs": ["tabsize"]}
LOOP = ["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem", "nextitem", "cycle('a', 'b')", "cycle(*words)", "changed({v})", "changed({v} | string | first)", "previtem is defined", "nextitem is defined"]
SPACES = ["", "", "", " ", "\n", "\n  ", "  \n", "\t", "\n\n", " \n \n "]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def template(self):
        self.macros, self.names, self.blocks, self.spaces, self.loops, self.variables = [], [], [], [], 0, 0
        if self.chance(0.4):
            return self.output(self.expression(self.r.choice("tttiirrlldbv")))
        return "".join(self.statement(0) for _ in range(self.r.choice([1, 1, 1, 2, 3, 4])))

    def chance(self, p):
        return self.r.random() < p

    # ---- Expressions by type: t(ext), i(nteger), r(eal), l(ist), d(ict), b(oolean), v: any

    def simple(self, kind):
        r = self.r
        if kind == "v":
            kind = r.choice("tttiirlldb")
        if kind == "b":
            return r.choice(["true", "false", "flag", "off", "nothing", "loop.first" if self.loops else "true"])
        known = [n for n, k in self.names if k == kind]
        if known and self.chance(0.4):
            return r.choice(known)
        one = r.choice(ROLES[kind])
        return one if self.loops or "loop." not in one else "3"

    def argument(self, kind):
        r = self.r
        if self.chance(0.015):
            return self.simple("v")
        choices = {"w": ["0", "1", "5", "12", "20", "-3"], "W": ["0", "2", "4", "'> '", "'\\t'"], "c": ["0", "1", "2", "-1", "5", "100", "none"], "L": ["1", "2", "3", "5", "8", "10", "20", "79"], "e": ["' '", "'-'", "', '", "'a'", "'xyz'", "'\\n'", "''", "'é'", "'o'", "'the'", "none"],
                   "f": ["'*'", "'é'", "'0'", "'ab'"], "n": ["1", "2", "3", "4", "7"], "p": ["0", "1", "2", "3", "-1", "-2", "10", "20", "none"], "M": ["'common'", "'ceil'", "'floor'"], "B": ["10", "16", "2", "8", "0", "36"], "I": ["0", "1", "2", "4", "'\\t'", "none", "-1", "true"],
                   "S": ["(',', ':')", "(', ', ': ')", "[';', '=']", "none", "',:'"], "K": ["'key'", "'value'"], "N": ["'keys'", "'get'", "'a'", "'__class__'", "'items'"], "A": ["'n'", "'v'", "0", "1", "'role'", "'function.name'", "'0'", "'t'", "'length'"]}
        return r.choice(choices[kind]) if kind in choices else self.expression(kind, 3)

    def filtered(self, kind, depth):
        r = self.r
        name, parameters = r.choice(KEYWORDS[kind])
        inner = self.expression(kind, depth + 1)
        if kind in "ir" or not inner.replace("_", "").isalnum():
            inner = "(" + inner + ")"
        if name == "map":
            return inner + " | map(" + r.choice(["'string'", "'length'", "'upper'", "'default', 'x'", "'replace', 'a', 'b'", "'round', 1", "'tojson'", "attribute='n'", "attribute='n', default='-'", "attribute='v', default=0", "attribute=0", "'float', default=-1", "'int', 7", "'join', '+'", "'first'"]) + ") | " + r.choice(["list", "join(',')", "first", "sort | join", "unique | list"])
        if name in ("select", "reject"):
            return inner + " | " + name + "(" + r.choice(["", "'string'", "'number'", "'gt', 1", "'in', [1, 'a', 'fig']", "'equalto', 'fig'", "'none'", "'odd'", "'ne', 3", "'divisibleby', 2", "'sameas', true", "'mapping'", "'lower'", "'ge', 'b'"]) + ") | list"
        if name == "random_" or parameters is None:
            return inner + " | length"
        given, named = [], False
        for parameter, what in parameters.items():
            if self.chance(0.9 if parameter in ("linecount", "slices", "attribute", "old", "new", "name") else 0.45):
                if not named and len(given) != list(parameters).index(parameter):
                    named = True
                named = named or self.chance(0.5)
                given.append((parameter + "=" if named else "") + self.argument(what))
        lazy = " | list" if name in ("batch", "slice", "unique", "items", "reverse") and kind != "t" and self.chance(0.95) else ""  # else its text holds an address
        return inner + " | " + name + ("(" + ", ".join(given) + ")" if given or self.chance(0.1) else "") + lazy

    def method(self, depth):
        r = self.r
        name, kinds = r.choice(METHODS)
        given, i, at = [], 0, 0
        while i < len(kinds):
            optional = kinds[i] == "?"
            i += optional
            if optional and self.chance(0.5):
                break
            name_it = name in NAMED and self.chance(0.4)
            given.append((NAMED[name][at] + "=" if name_it else "") + (self.argument(kinds[i]) if kinds[i] != "l" else r.choice(["words", "['a', 'b']", "('x',)", "[]", "'abc'", "table", "mixed", "rows | map(attribute='n')"])))
            i += 1
            at += 1
            if name_it:
                break
        return "(" + self.expression("t", depth + 1) + ")." + name + "(" + ", ".join(given) + ")"

    def percent(self):
        r = self.r
        kind = r.choice("diouxXeEfFgGcrsa%")
        flags = "".join(f for f in "-+ 0#" if self.chance(0.22))
        width = r.choice(["", "", "", "1", "3", "8", "12", "*"])
        precision = r.choice(["", "", "", ".", ".0", ".1", ".3", ".10", ".*"])
        if kind == "%":
            flags = width = precision = ""
        value = {"c": lambda: r.choice(["65", "'x'", "'é'", "0x1F600", "-1", "'ab'"]), "r": lambda: self.simple("v"), "s": lambda: self.simple("v"), "a": lambda: self.simple("v")}.get(kind, lambda: self.simple(r.choice("iirr")))()
        values = [r.choice(["5", "-8", "0", "2"]) for c in width + precision if c == "*"] + ([value] if kind != "%" else [])
        key = "(k)" if self.chance(0.12) and "*" not in width + precision and kind != "%" else ""
        text = r.choice(["", "a ", "é%% "]) + "%" + key + flags + width + precision + r.choice(["", "", "", "l", "h"]) * (kind != "%") + kind + r.choice(["", "|", " %%"])
        if key:
            return repr(text) + " % {'k': " + value + "}"
        if self.chance(0.3):
            return repr(text) + " | format(" + ", ".join(values) + ")"
        if len(values) == 1 and self.chance(0.3):
            return repr(text) + " % (" + values[0] + ")"
        return repr(text) + " % (" + "".join(v + ", " for v in values) + ")"

    def spec(self, kind):
        r = self.r
        fill_align = r.choice(["", "", "", "<", ">", "^", "=", "*<", "é>", "0^", "_=", " ^", "x="])
        types = {"t": ["", "s", "s", "d"], "i": ["", "d", "b", "o", "x", "X", "c", "n", "e", "f", "g", "%", "E", "F", "G", "s"], "r": ["", "e", "E", "f", "F", "g", "G", "n", "%", "d"]}[kind]
        return (fill_align + r.choice(["", "", "", "+", "-", " "]) + r.choice(["", "", "", "", "z"]) + r.choice(["", "", "", "#"]) + r.choice(["", "", "0"]) + r.choice(["", "", "1", "6", "10", "15", "{w}"]) + r.choice(["", "", "", ",", "_"])
                + r.choice(["", "", ".0", ".1", ".2", ".6", ".12", ".{p}"]) + r.choice(types))

    def formatted(self):
        r = self.r
        kind = r.choice("tiirr")
        spec = self.spec(kind) if self.chance(0.8) else ""
        field = r.choice(["", "0", "k", "", "1", "k.x", "k[0]", "k[a]", "0[1]", "0.real", "k[-1]", "2"])
        value = self.simple(kind) if field in ("", "0", "k", "1", "2") else self.simple("v")
        conversion = r.choice(["", "", "", "", "!r", "!s", "!a"])
        text = r.choice(["", "{{", "a "]) + "{" + field + conversion + (":" + spec if spec or self.chance(0.1) else "") + "}" + r.choice(["", "}}", " {}", " {k}"])
        arguments = [value] if field[:1] != "k" or self.chance(0.2) else []
        if field in ("1", "2"):
            arguments = ["'unused'"] * int(field) + arguments
        named = (["k=" + value] if field[:1] == "k" or "{k}" in text else []) + (["w=8"] if "{w}" in spec else []) + (["p=3"] if "{p}" in spec else [])
        return repr(text) + ".format(" + ", ".join(arguments + named) + ")"

    def number(self, kind, depth):
        r = self.r
        a, b = self.simple(r.choice("iir")), self.simple(r.choice("iir") if kind == "r" else "i")
        operator = r.choice(["+", "-", "*", "/", "//", "%", "**"])
        if operator == "**":
            b = r.choice(["2", "3", "0.5", "-1", "0", "-2", "10"])
        left = r.choice(["", "", "-", "+"]) + "(" + (self.expression(r.choice("ir"), depth + 1) if self.chance(0.2) and operator != "**" else a) + ")"
        return left + " " + operator + " (" + b + ")"

    def boolean(self, depth):
        r = self.r
        k = r.randrange(10)
        any_ = lambda: "(" + self.simple("v") + ")"  # noqa: E731
        if k < 3:
            kind = r.choice("tirlv")
            return "(" + self.expression(kind, depth + 1) + ") " + r.choice(["==", "!=", "<", "<=", ">", ">="]) + " (" + self.expression(r.choice([kind, kind, kind, "v"]), depth + 1) + ")"
        if k < 4:
            return any_() + " " + r.choice(["==", "<", "!=", ">="]) + " " + any_() + " " + r.choice(["==", "<", "in", ">"]) + " " + any_()
        if k < 6:
            return any_() + " " + r.choice(["in", "not in"]) + " (" + self.simple(r.choice("tlld")) + ")"
        if k < 8:
            test = r.choice(["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false", "odd", "even", "divisibleby 3", "divisibleby(2)", "lower", "upper", "callable", "escaped", "sameas none", "sameas(true)", "eq 1", "in words", "in [1, none]", "filter", "test", "gt 2", "le(5)", "ne 'a'"])
            return any_() + " is " + r.choice(["", "not "]) + test
        return r.choice(["not ", ""]) + self.simple("b") + " " + r.choice(["and", "or"]) + " (" + self.expression(r.choice("bv"), depth + 1) + ")"

    def slice(self, kind, depth):
        part = lambda: self.r.choice(["", "", "0", "1", "2", "-1", "-2", "3", "10", "-10", "none", "one", "-one"])  # noqa: E731
        return "(" + self.expression(kind, depth + 1) + ")[" + part() + ":" + part() + self.r.choice(["", "", ":", ":1", ":2", ":-1", ":-2", ":none"]) + "]"

    def expression(self, kind, depth=0):
        r = self.r
        if self.chance(0.01):
            kind = "v"
        if kind == "v":
            kind = r.choice("tttiirlldb")
        if depth > 2 or self.chance(0.25):
            return self.simple(kind)
        k = r.randrange(12)
        if k == 0:
            return "(" + self.expression(kind, depth + 1) + " if " + self.expression("b", depth + 1) + (" else " + self.expression(kind, depth + 1) if self.chance(0.8) else "") + ")"
        if k == 1 and self.spaces:
            return r.choice(self.spaces) + "." + r.choice("abc")
        if kind == "b":
            return self.boolean(depth)
        if kind in "ir":
            return self.number(kind, depth) if k < 7 else self.filtered(kind, depth)
        if kind == "t":
            return [lambda: self.filtered("t", depth), lambda: self.method(depth), self.percent, self.formatted, lambda: self.slice("t", depth), lambda: self.simple("v") + " ~ (" + self.expression("v", depth + 1) + ")",
                    lambda: "(" + self.expression("t", depth + 1) + ") + " + self.simple("t"), lambda: self.method(depth), lambda: self.percent(), lambda: self.formatted(), lambda: "(" + self.simple("t") + ")[" + r.choice(["0", "-1", "2", "9", "one"]) + "]", lambda: self.filtered("t", depth)][k]()
        if kind == "l":
            return self.slice("l", depth) if k < 4 else self.filtered("l", depth) if k < 9 else "(" + self.simple("l") + ") + (" + self.simple("l") + ")" if k < 10 else self.sorted_rows()
        return self.filtered("d", depth) if k < 8 else "(" + self.simple("d") + ")" + r.choice(["['a']", ".a", ".get('a')", ".get('zz', 5)", ".items() | list", ".values() | list", ".keys() | list", "['zz']", ".zz.y", ".a.k[1]", "[1]", "[none]", ".copy()", ".items", ".missing is defined"])

    def sorted_rows(self):
        r = self.r
        return r.choice(ROWS) + " | " + r.choice(["sort(attribute='n')", "sort(attribute='g,n')", "sort(attribute='v', reverse=true)", "groupby('g')", "groupby('v', default=0)", "groupby('g', case_sensitive=true)", "selectattr('v')", "selectattr('v', 'gt', 1)", "rejectattr('v', 'defined')", "selectattr('role', 'equalto', 'user')",
                                                 "map(attribute='n')", "map(attribute='content')", "sum(attribute='v', start=10)", "unique(attribute='g')", "max(attribute='v')", "min(attribute='n')", "join(', ', attribute='n')", "map(attribute='v', default='none')", "rejectattr('n', 'in', ['x', 'Z'])", "sort(attribute='g', case_sensitive=true)", "map(attribute='function.name')"]) + r.choice(["", " | list", " | tojson", " | first", " | length", " | list | pprint"])

    # ---- Statements

    def tag(self, text):
        r = self.r
        sign = lambda: r.choice(["", "", "", "", "-", "+"])  # noqa: E731
        return r.choice(SPACES) + "{%" + sign() + r.choice([" ", ""]) + text + " " + sign() + "%}" + r.choice(SPACES)

    def output(self, text):
        r = self.r
        return "{{" + r.choice(["", "", "", "-"]) + " " + text + " " + r.choice(["", "", "", "-"]) + "}}"

    def name(self, kind):
        self.variables += 1
        name = self.r.choice(["x", "y", "item", "n", "v" + str(self.variables), "text", "loop_" + str(self.variables), "words"])
        self.names.append((name, kind))
        return name

    def body(self, depth):
        kept = len(self.names), len(self.spaces), len(self.macros)
        out = "".join(self.statement(depth + 1) for _ in range(self.r.choice([1, 1, 2, 3])))
        if self.chance(0.8):  # else what was defined inside is used outside, where it may not be seen
            del self.names[kept[0]:], self.spaces[kept[1]:], self.macros[kept[2]:]
        return out

    def loop(self, depth):
        r = self.r
        shape = r.randrange(7)
        kept = len(self.names)
        condition = otherwise = ""
        if shape < 3:
            kind = "v"
            over = self.expression("l", 1)
            names = name = self.name(kind)
        elif shape == 3:
            over, name = r.choice(["table.items()", "table | items", "{'a': 1, 'b': 2}.items()", "matrix | map('batch', 2)", "tools[0].function.items()", "table | dictsort", "[[1, 2], [3, 4]]", "words | zip" if self.chance(0.02) else "rows | groupby('g')"]), "k"
            names = r.choice(["k, v", "(k, v)", "k, v"])
            self.names += [("k", "v"), ("v", "v")]
        elif shape == 4:
            over = r.choice(["messages", "rows", "tools", "tree"])
            names = name = "m"
            self.names += [("m.role", "v"), ("m.content", "v"), ("m.n", "v"), ("m", "d")]
        elif shape == 5:
            over, names, name = "tree", "node", "node"
        else:
            over, names, name = r.choice(["[[1, [2, 3]], [4, [5, 6]]]", "[(1, (2, 3))]"]), "a, (b, c)", "a"
            self.names += [("a", "i"), ("b", "i"), ("c", "i")]
        if shape in (0, 4) and self.chance(0.4):
            condition = " if " + (r.choice(["m.role != 'system'", "m.role == 'user'", "m.content", "m.n is defined"]) if shape == 4 else r.choice([name + " is not none", name, name + " != 'fig'", self.expression("b", 2)]))
        self.loops += 1
        inner = "".join(self.output("loop." + r.choice(LOOP).replace("{v}", name)) + r.choice(["", " ", "|"]) for _ in range(r.choice([0, 1, 1, 2, 3])))
        if self.chance(0.12):
            inner += self.tag("set outer" + str(depth) + " = loop") + "{% for q in [1, 2] %}{{ outer" + str(depth) + ".index }}{{ loop.index }}{% endfor %}"
        if self.chance(0.15):
            inner += "{% if loop.index" + r.choice([" == 2", " > 2", "0 == 1", " is even"]) + " %}{% " + r.choice(["break", "continue"]) + " %}{% endif %}"
        recursive = ""
        if shape == 5:
            recursive = " recursive" if self.chance(0.9) else ""
            inner += "{{ node.t }}" + r.choice(["", "{{ loop.depth }}"]) + "{% if node.c %}[{{ loop(node.c) }}]{% endif %}"
        inner += self.body(depth)
        self.loops -= 1
        del self.names[kept:]
        if self.chance(0.15):
            otherwise = self.tag("else") + self.body(depth)
        return self.tag("for " + names + " in " + over + condition + recursive) + inner + otherwise + self.tag("endfor")

    def macro(self, depth):
        r = self.r
        name = "m" + str(len(self.macros)) + r.choice(["", "_x"])
        parameters = r.choice([[], ["a"], ["a", "b=2"], ["a='x'", "b=a"], ["a", "b=none", "c=[]"], ["text=text"], ["a=one + 1"]])
        caller = self.chance(0.3)
        kept = len(self.names)
        self.names += [(p.split("=")[0], "v") for p in parameters]
        inner = self.body(depth)
        del self.names[kept:]
        more = r.choice(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ varargs | length }}{{ kwargs | dictsort }}"]) + ("[" + self.output(r.choice(["caller()", "caller(1)", "caller(1, b=2)", "caller() if caller else 'none'", "caller is defined"])) + "]" if caller else "")
        self.macros.append((name, len(parameters)))
        return self.tag("macro " + name + "(" + ", ".join(parameters) + ")") + inner + more + self.tag("endmacro" + r.choice(["", "", " " + name] if self.chance(0.02) else [""]))

    def call(self):
        r = self.r
        if not self.macros:
            return self.output(self.expression("v"))
        name, count = r.choice(self.macros)
        given = [self.simple("v") for _ in range(min(count, r.choice([0, 1, 2])))]
        more = r.choice([[], [], [], [], [], ["a=" + self.simple("v")] if not given else [], ["b=" + self.simple("v")] if len(given) < 2 else [], ["*[1]"], ["**{'b': 3}"], ["zz=1"]])
        return name + "(" + ", ".join(given + more) + ")"

    def statement(self, depth):
        r = self.r
        k = r.randrange(34) if depth < 3 else r.randrange(11)
        if k < 3:
            return r.choice(["text", " a ", "é\n", "\n", "  ", "<|im_start|>", "{# note #}", "{#- c -#}", "{#+ d +#}", "a { b } c", "\n   {# x #}\n", "%}", "{{ '{{' }}", "# x", "'", "{%- raw %} {{ x }} {% endraw -%}", "{% raw -%} \n y {%- endraw %}"])
        if k < 11:
            return r.choice(SPACES) + self.output(self.expression(r.choice("tttiirrlldbv"))) + r.choice(SPACES)
        if k < 14:
            kind = r.choice("tirldb")
            value = self.expression(kind, 1)
            return self.tag("set " + self.name(kind) + " = " + value)
        if k < 18:
            return self.loop(depth)
        if k < 21:
            out = self.tag("if " + self.expression("b", 1)) + self.body(depth)
            for _ in range(r.choice([0, 0, 1, 2])):
                out += self.tag("elif " + self.expression("b", 1)) + self.body(depth)
            return out + (self.tag("else") + self.body(depth) if self.chance(0.5) else "") + self.tag("endif")
        if k < 23:
            return self.macro(depth)
        if k < 25:
            return self.output(self.call()) + r.choice(["", "", self.output(self.macros[-1][0] + "." + r.choice(["name", "arguments", "catch_kwargs", "catch_varargs", "caller"])) if self.macros else ""])
        if k < 26:
            target = self.call()
            return target if target.startswith("{{") else self.tag("call" + r.choice(["", "(x)", "(x, b=1)"]) + " " + target) + self.body(depth) + "{{ x }}" + self.tag("endcall")
        if k < 28:
            space = r.choice(["ns", "state"])
            if space in self.spaces:
                return self.tag("set " + space + "." + r.choice("abc") + " = " + r.choice([self.expression("v", 1), space + ".a", "(" + space + ".b | default(0)) + 1"]))
            self.spaces.append(space)
            return self.tag("set " + space + " = namespace(" + r.choice(["a=1", "a='x', b=[]", "{'a': 1}", "dict(a=0), b=2", ""]) + ")")
        if k < 29:
            kind_of_value = self.name("t")
            return self.tag("set " + kind_of_value + r.choice(["", " | upper", " | trim", " | replace('a', 'b') | length", " | indent(2)"])) + self.body(depth) + self.tag("endset")
        if k < 30:
            return self.tag("with " + r.choice(["a = 1", "a = 1, b = 2", "text = 'inner'", "words = [1], x = words", ""])) + self.body(depth) + "{{ a }}" + self.tag("endwith")
        if k < 31:
            return self.tag("filter " + r.choice(["upper", "trim", "indent(2, true)", "replace('e', 'E')", "title | trim", "wordwrap(10)", "e", "center(30)", "truncate(9, true)"])) + self.body(depth) + self.tag("endfilter")
        if k < 33:
            name = "b" + str(len(self.blocks))
            self.blocks.append(name)
            inner = self.body(depth) + r.choice(["", "", "", "{{ super() }}", "{{ loop.index }}", "{{ self." + r.choice(self.blocks[:-1]) + "() }}" if len(self.blocks) > 1 else ""])
            after = r.choice(["", "", "{{ self." + name + "() }}", "{{ self." + name + "() | upper }}", "{{ self.none_such is defined }}", "{{ self['" + name + "']() | length }}"])
            return self.tag("block " + name + r.choice(["", "", " scoped"])) + inner + self.tag("endblock" + r.choice(["", " " + name])) + after
        return r.choice([self.tag("generation") + self.body(depth) + self.tag("endgeneration"), self.tag("print " + self.expression("v", 1)), self.tag("autoescape true") + self.body(depth) + self.tag("endautoescape"), self.tag("do x") if self.chance(0.02) else "",
                         self.output(r.choice(["cycler('a', 'b').next()", "joiner('|')()", "dict(a=1).a", "namespace(a=1).a", "range(3) | list", "lipsum is defined", "strftime_now('%Y-%m-%d %H:%M %j')", "raise_exception('stop ' ~ one)" if self.chance(0.1) else "range(2, 9, 3) | join"]))])


def main():
    args = templates_random.options(__doc__, 20000)
    maker = Maker(args.seed)
    return 1 if templates_random.compare((maker.template() for _ in range(args.count)), CONTEXT, args, "templates") else 0


if __name__ == "__main__":
    sys.exit(main())
