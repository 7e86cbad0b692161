#!/usr/bin/env python3
"""Renders the snippets below with jinja2 (see oracle.py) and keeps source, context and text or error in data/*.json, one file a subject.

Run after adding a snippet: python3 tests/templates/make_oracle.py
"""
import json
import pathlib

import oracle

CONTEXT = {
    "s": "Hello, World", "u": "žluťoučký 日本 🦆 ß", "n": 7, "neg": -3, "f": 2.5, "t": True, "no": None, "e": "", "ws": " \t pad \n ",
    "l": [3, 1, 2], "d": {"b": 1, "a": 2, "C": 3}, "words": ["bob", "Al", "carl", "al"], "nested": {"x": {"y": [1, {"z": "deep"}]}},
    "people": [{"name": "Bob", "age": 30, "tags": ["x"]}, {"name": "al", "age": 25}, {"name": "Carl", "age": 30, "ok": True}],
    "big": 123456789012345678901234567890, "html": "<a href='x'>\"&</a>", "lines": "one\ntwo\r\n\nthree\n", "items_dict": {"items": 1, "get": 2},
    "tree": [{"n": "a", "c": [{"n": "b", "c": []}, {"n": "c", "c": [{"n": "d", "c": []}]}]}],
}

SNIPPETS = {
    "objects": r'''
{% for x in l %}{{ n is defined }}{% endfor %}{% set n = 1 %}{{ n }}
{% set n | trim %}{{ n is defined }}{% endset %}{{ n }}
{% set n = n + 1 %}{{ n }}
{% if t %}{% set n = 1 %}{% endif %}{{ n }}
{% if e %}{% set n = 1 %}{% endif %}{{ n }}
{% if e %}{% set n = 1 %}{% else %}{% set n = 2 %}{% endif %}{% for i in 'a' %}{{ n }}{% endfor %}
{% for i in [1, 2] %}{% if i == 1 %}{% set n = 5 %}{% elif i == 3 %}{% set n = 6 %}{% else %}{{ n }}{% endif %}{{ n }}{% endfor %}
{% for i in [1, 2] %}{% if i == 1 %}{% set q = 5 %}{% elif i == 2 %}{% set q = 6 %}{% else %}{% set q = 7 %}{% endif %}{{ q }}{% endfor %}{{ q is defined }}
{% for i in [1, 2] %}{{ s if i == 1 }}{% set s = i %}{{ s }}{% endfor %}{{ s }}
{% macro m() %}{{ n is defined }}{% set n = 3 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}
{% macro m() %}{% if e %}{{ n }}{% endif %}{% set n = 3 %}{{ n }}{% endmacro %}{{ m() }}{% set n = 9 %}
{% macro m(a=b, b=1) %}{{ a is defined }}{{ b }}{% endmacro %}{{ m() }}{{ m(2) }}
{% with n = 5, q = n %}{{ n }}{{ q }}{% set n = 6 %}{{ n }}{% endwith %}{{ n }}
{% for x in l if n > 1 %}{{ x }}{% set n = 0 %}{{ n }}{% endfor %}
{% set x | replace(n | string, 'z') %}{{ n }}{% set n = 1 %}{{ n }}{% endset %}{{ x }}
{% filter replace(q, 'z') %}{% set q = 'a' %}aba{% endfilter %}
{% block a %}{{ n }}{% set n = 1 %}{{ n }}{% endblock %}{{ n }}
{% set n = 1 %}{% block a %}{{ n }}{% endblock %}{% set n = 2 %}{{ self.a() }}
{% for x in l %}{% block a %}{{ x is defined }}{% endblock %}{% block b scoped %}{{ x }}{{ loop.index }}{% endblock %}{% endfor %}{{ self.b() }}
{% for x in l %}{% block a %}{{ loop.index }}{% endblock %}{% endfor %}
{% block a %}x{% endblock %}[{{ self.a() | upper }}{{ self['a']() }}]{{ self.q is defined }}{{ self }}
{% block a %}{% block b %}y{% endblock %}x{% endblock %}{{ self.b() }}{{ self.a() }}
{% block a %}{{ self.a() }}{% endblock %}
{% block a %}{{ super() }}{% endblock %}
{% block a %}{{ super is defined }}{% for i in 'a' %}{{ super is defined }}{% endfor %}{% endblock %}{{ super is defined }}
{% block a %}x{% endblock %}{{ self.a.super is defined }}{{ self.a.name }}
{{ self.a() }}
{% block a %}x{% endblock %}{{ self.a(1) }}
{% macro m(a, b=2) %}{{ varargs }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}{{ m.explicit_caller }}{{ m.q is defined }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.pos }}{{ c.items }}{{ c.reset() }}{{ c.current }}{{ c.q is defined }}
{% set j = joiner('|') %}{{ j.sep }}{{ j.used }}{{ j() }}{{ j() }}{{ j.used }}
{{ s.__class__ }}{{ s.__class__ is defined }}{{ s | attr('__class__') is defined }}{{ missing.__class__ }}{{ {'__class__': 5}.__class__ }}{{ {'__class__': 5}['__class__'] }}
{{ s.__class__.__name__ }}
{{ s | attr('__class__') | length }}{{ d | attr('a') is defined }}
{{ d.keys() == {'b': 0, 'a': 0, 'C': 0}.keys() }}{{ d.keys() == d.items() }}{{ d.items() == d.copy().items() }}{{ d.values() == d.values() }}
{{ {d.keys(): 1} }}
{{ [none] in d.keys() }}
{{ (0 - 9223372036854775807 - 1) % 3 }} {{ (0 - 9223372036854775807 - 1) // 3 }} {{ -7 % 3 }} {{ -6 % 3 }}
{{ 5 in d.items() }}{{ ('a', 2) in d.items() }}{{ ('a', 3) in d.items() }}
{{ 'x' if (2.5[:1]) }}
{{ l | sort(9223372036854775807) }}
{{ d.values() in {1: 2} }}{{ {'a': 1}.get(d.values()) }}
{{ d.get(d.items()) }}
{{ 125.0 | round(-1) }} {{ 135 | round(-1) }} {{ 12345.678 | round(-3) }} {{ 5e22 | round(-22) }} {{ 1e300 | round(-299) }} {{ 0.5 | round }} {{ 1.5 | round }} {{ 2.675 | round(2) }} {{ -5.0 | round(-1) }} {{ 50.0 | round(-2) }} {{ 51.0 | round(-2) }} {{ 1e22 | round(-400) }} {{ 2.5 | round(none) }}
{{ 1.7976931348623157e308 | round(-308) }}
{{ 2.345 | round(2, 'ceil') }} {{ 2.345 | round(2, 'floor') }} {{ 12345 | round(-2, 'ceil') }} {{ 12345678901234567890123 | round(-2, 'floor') }} {{ 2.5 | round(1.5, 'ceil') }}
{{ 5 | round(400, 'ceil') }} {{ 2.5 | round(400, 'ceil') }}
{{ [1, {'a': 2}] | tojson(indent=true) }} {{ 'a' | tojson(indent=2.5) }} {{ [1] | tojson(indent=-3) }} {{ [1] | tojson(indent='--') }} {{ [] | tojson(indent=2) }}
{{ [1] | tojson(indent=2.5) }}
{{ 'the quick-brown fox--jumped über-straße a-b-c x1-y2 --long-option end--' | wordwrap(5) }}
{{ 'ab-cd-ef gh' | wordwrap(4) }} {{ 'aaaa-bbbb-cccc' | wordwrap(7) }} {{ 'aaaa-bbbb-cccc' | wordwrap(7, break_on_hyphens=false) }} {{ '-----------' | wordwrap(4) }} {{ 'a---b----c' | wordwrap(3) }} {{ '½-½-½ ab' | wordwrap(3) }}
{{ "1, 'b': [2]" | wordwrap(3) }} {{ '  lead  trail  ' | wordwrap(4) }} {{ 'x' | wordwrap(1e3) }} {{ '\u00a0\u00a0a b' | wordwrap(2) }}
{{ 'x y' | wordwrap(1, true, 2) }}
{{ ('word ' * 40) | pprint }} {{ [('word ' * 30), 1] | pprint }} {{ {'k': 'line\nline two ' * 9, 'j': ('x' * 90)} | pprint }}
{{ ('x' * 100) | pprint }} {{ ('a\n' * 50) | pprint }} {{ {3: 1, 'a': 2, none: 3, (1, 'a'): 4} | pprint }} {{ [['inner ' * 5, 'inner ' * 9], {'deep': {'er': ['word'] * 20}}] | pprint }}
{{ 'see http://a.com/x?y=1, (www.b.org) mail me@c.net or mailto:d@e.fr <http://f.gov> ftp://g h.com https://[::1]:80/ http://1.2.3.4 x@y (http://k.com/(z))' | urlize }}
{{ 'http://a.com/long/path x.edu:99 a.museum www.ß.de HTTP://UP.COM a@b' | urlize(12, true, '_blank', 'x y') }} {{ 'tel:123 a://b' | urlize(extra_schemes=['tel:', 'a://']) }} {{ ('<b>http://q.com</b>' | safe) | urlize }}
{{ 'a' | urlize(extra_schemes=['x']) }}
{{ -100000000000000000000.0 | filesizeformat }} {{ 1e30 | filesizeformat }} {{ (1e308 * 10 * one) | filesizeformat }}
{{ 'aaaa' | truncate(1e3) }} {{ '½ a_b Ⅷ' | wordcount }}
{{ '{:,x}'.format(5) }}
{{ '{:_x} {:_b} {:,.1f} {:_e}'.format(65536, 255, 12345.67, 1e9) }}
{{ '{:_n}'.format(5.0) }}
{{ '{:zd}'.format(5) }}
{{ '%.0c|%5.1c|' % ('a', 66) }} {{ range(0)[1:5:2] }} {{ range(10)[::-3] }} {{ range(5)[::-9223372036854775807] }}
{{ (1, 'a') | max }}
{{ [(1, 2)] | groupby(0) | first | attr('grouper') }} {{ 5 | groupby('a') }}
{{ (l | groupby(0) | list)[0].q.r }}
{{ (1, 2).q.r }}
{{ people | selectattr('age', 'gt', 26) | map('dictsort') | first | length }}{{ [1, 'a'] | map('round') | first }}{{ [2, 'a', 3] | map('abs') | select('gt', 1) | first }}
{{ [2, 'a', 3] | map('abs') | select('gt', 1) | list }}
{% for x in [2, 'a', 3] | map('abs') %}{{ x }}{% break %}{% endfor %}
{% for x in [2, 'a', 3] | map('abs') %}{{ x }}{% endfor %}
{{ '{:#.0%}'.format(0.5) }} {{ 'abc' % range(5) }} {{ 'abc' % [1] }}
{{ range(3).q.r }}
{{ namespace(a=1).q.r }}
{% set loop = 1 %}{{ loop }}
''',
    "completeness": r"""
{{ 12345678901234567890 + 1 }} {{ big * big }} {{ big - big }} {{ -big }} {{ big // 7 }} {{ big % 7 }} {{ -big // 7 }} {{ -big % 7 }} {{ 7 % -big }} {{ big / 3 }} {{ 1 / big }}
{{ 2 ** 100 }} {{ (-3) ** 51 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775807 - 2 }} {{ 9223372036854775807 * 2 - 9223372036854775807 }}
{{ big == 123456789012345678901234567890 }} {{ big > 1e29 }} {{ big < 1e30 }} {{ 9007199254740993 == 9007199254740992.0 }} {{ 1e30 | int }} {{ '99999999999999999999' | int + 1 }}
{{ big | string | length }} {{ '%d %x %,' % (big, big, 1) }}
{{ '%d %x' % (big, big) }} {{ '{:,} {:x} {:e}'.format(big, big, big) }} {{ big | abs }} {{ -big | abs }} {{ big | round(-25) }} {{ 25 | round(-1) }} {{ 35 | round(-1) }} {{ [big, 1] | sort }}
{{ 0xffffffffffffffffffff }} {{ 12345678901234567890123 | tojson }} {{ {big: 1}[big] }} {{ big is integer }} {{ big is odd }} {{ big.bit_length() }} {{ 10.bit_count() }} {{ 0.75.as_integer_ratio() }}
{{ 10 ** 400 / 10 ** 399 }} {{ 7.0 // 0.1 }} {{ -7.5 // 2 }} {{ 1e308 * 10 }} {{ -0.0 // 1 }} {{ 5.5 % -2 }}
{{ 'ﬁ ŉ ß ǆ ΑΣ ΑΣΑ İ' | upper }} {{ 'ΑΣ ΑΣΑ İ Σ' | lower }} {{ 'ﬁne ǆ ßx' | title }} {{ 'ﬁne ǆ ßx'.title() }} {{ 'ßﬁΣ'.casefold() }} {{ 'ǆX'.swapcase() }} {{ 'ﬁX'.capitalize() }}
{{ '½'.isdigit() }}{{ '½'.isnumeric() }}{{ '五'.isnumeric() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '٣'.isdecimal() }}{{ 'Ⅷ'.isupper() }}{{ 'ⅷ'.islower() }}{{ 'ǅ'.istitle() }}{{ 'a1_'.isidentifier() }}{{ '1a'.isidentifier() }}
{{ '{a} {b[0]} {c.x}'.format_map({'a': 1, 'b': [2], 'c': {'x': 3}}) }} {{ 'abc'.translate({97: 'X', 98: none, 99: 100}) }} {{ '{!r} {!s} {!a}'.format('é', 'é', 'é') }}
{{ '{0} {}'.format(1, 2) }}
{{ '{} {:>{}}'.format(1, 'x', 4) }} {{ '{:05d} {:<05d}| {:+,} {:_x} {:#b} {:c} {:z.1f} {:010,d}'.format(42, 42, 1234567, 65535, 5, 65, -0.01, 1234) }} {{ '{:05}|{:<05}|{:*^7}'.format('ab', 'ab', 'ab') }}
{{ '%a %r' % ('é', 'é') }} {{ '%c%c' % (65, 'z') }} {{ '%5%' % () }}
{{ '%% %d' % 3 }} {{ '% %' % 3 }}
{{ 5.real }} {{ 5.imag }} {{ 2.5.imag }} {{ true.numerator }} {{ range(1, 9, 2).start }}{{ range(1, 9, 2).stop }}{{ range(1, 9, 2).step }} {{ range(9, 0, -2)[1:3] }} {{ range(5)[::-1] }} {{ 1.5.is_integer() }} {{ 1e3.hex() }} {{ {}.fromkeys('ab', 1) }} {{ d.keys().isdisjoint(['q']) }}
{% for x in l %}{{ loop }}{% endfor %}{% macro m() %}{% endmacro %}{{ m }}{% macro w() %}{{ caller }}{{ caller.name }}{% endmacro %}{% call w() %}{% endcall %}
{% if false %}{% include 'x' %}{% import 'y' as z %}{% from 'y' import a, b as c with context %}{% extends 'q' %}{% endif %}ok
{% import 'y' as z %}
{% include ['a', 'b'] ignore missing without context %}
{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% block b %}{{ x }}{{ i }};{% endblock b %}{% block c scoped %}{{ x }}{{ i }}.{% endblock %}{% endfor %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% block a required %}{% endblock %}
{% autoescape true %}{{ html }}{{ html | safe }}{{ '<' ~ n }}{{ e ~ '<' ~ (html | safe) }}{% set q %}<{{ '<' }}{% endset %}{{ q }}{% endautoescape %}{{ html }}
{% autoescape true %}{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('<') }}{% endautoescape %}
{% autoescape true %}{{ '<' }}{% block b %}{{ '<' }}{% endblock %}{{ '<' }}{% endautoescape %}{% block c %}{{ '<' }}{% endblock %}
{% do 1 %}
{% filter length %}abc{% endfilter %}
{{ '<p>a &amp; <b>b</b>  <!-- c --> d</p>' | striptags }} {{ {'a': 1, 'b': none, 'c': '<'} | xmlattr }}|{{ {'a': 1} | xmlattr(false) }}|{{ {'a b': 1} | xmlattr if false }}
{{ {'a b': 1} | xmlattr }}
{{ {'b': 1, 'a': [1, 2]} | pprint }} {{ ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', {'k': ['cccccccccccccccccccccccccccccc', 'd']}] | pprint }}
{{ 'the quick brown-fox jumped over the lazy dog' | wordwrap(12) }} {{ 'abcdefghij kl' | wordwrap(4) }} {{ 'abcdefghij kl' | wordwrap(4, false) }} {{ 'a b\nc d' | wordwrap(3, wrapstring='|') }}
{{ 5 | map('nofilter') is defined }} {{ 5 | select | string | length > 3 }} {{ [] | random is defined }}
{{ 5 | map('upper') | list }}
{{ words | map('nofilter') | list }}
{{ [none, none] | sort }} {{ ['a'] | max(attribute='x') }} {{ people | map(attribute='tags.0', default='-') | list }} {{ [['a', 1]] | urlencode }} {{ 'a b/ü' | urlencode }}
{{ [1, 2] | sort(none) }}
{{ l | batch(-1) | list }} {{ l | slice(-1) | list }} {{ [1] | truncate }} {{ ('ab' | safe) | list }} {{ ('ab' | safe) | first is escaped }}{{ ('ab' | safe) | last is escaped }}
{{ 3[1:] }}|{{ {}[1:] }}|{{ none[::2] }}|
{{ n[1:] }}
{{ [] | first }}{{ ([] | first).x }}
{{ (1 if false).x }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{{ l[7].x }}
{{ s | filesizeformat }}
{{ range(3) in {range(3): 1} }}
""",
    "statements": r'''
{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}
{% if e %}1{% elif no %}2{% elif undefined_thing %}3{% endif %}
{% for x in l %}{{ x }},{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}
{% for x in l %}{{ loop.cycle('odd', 'even') }}{% endfor %}
{% for x in [1,1,2,2,1] %}{{ loop.changed(x) }}{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% else %}no{% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for c in 'añ🦆' %}[{{ c }}]{% endfor %}
{% for x in undefined_thing %}x{% endfor %}ok
{% for x in 5 %}x{% endfor %}
{% for x in none %}x{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}
{% break %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in l %}{% set y %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endset %}{{ y }}{% endfor %}
{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% for n in tree recursive %}{{ n.n }}{{ loop.depth }}{{ loop.depth0 }}({{ loop(n.c) }}){% endfor %}
{% for n in tree %}{{ loop(n.c) }}{% endfor %}
{% for x in l %}{{ loop is defined }}{% break %}{% endfor %}x
{{ loop }}
{% for x in l %}{% endfor %}{{ x }}
{% set x = 1 %}{% for y in l %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(i=0) %}{% for y in l %}{% set ns.i = ns.i + y %}{% endfor %}{{ ns.i }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns }}
{% set ns = namespace() %}{% set ns.x, y = 1, 2 %}{{ ns.x }}{{ y }}
{% set ns = namespace(_a=1) %}[{{ ns._a }}]
{% set d.x = 1 %}
{% set ns.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = 1 %}
{% set a, b = [1, 2, 3] %}
{% set x = 1, %}{{ x }}
{% set true = 1 %}
{% set x %}a{{ n }}b{% endset %}[{{ x }}]
{% set x | upper | replace('A', 'z') %}abca{% endset %}{{ x }}
{% set x %}{% set y = 2 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}
{% set range = 5 %}{{ range }}
{% if true %}{% set x = 3 %}{% endif %}{{ x }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 4 %}{% endwith %}{{ a is defined }}{{ c is defined }}
{% with %}{% set z = 1 %}{{ z }}{% endwith %}
{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=5) }}{{ m(1, 2, 3) }}
{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(z=2) }}
{% macro m(a, a2=a) %}{{ a2 }}{% endmacro %}{{ m(4) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}
{% macro fact(n) %}{{ n if n < 2 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(5) }}
{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}
{% macro m() %}{{ x is defined }}{% endmacro %}{% for x in l %}{{ m() }}{% endfor %}
{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}
{% macro m() %}a{% endmacro %}{{ m.name }}{{ m() | length }}{{ m() ~ m() }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{{ n }}{% endcall %}
{% macro m(a) %}[{{ caller(a, 2) }}]{% endmacro %}{% call(x, y) m(1) %}{{ x }}{{ y }}{% endcall %}
{% macro m() %}[{{ caller() if caller else 'none' }}]{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% call 5 %}x{% endcall %}
{% filter upper %}abc{{ n }}{% endfilter %}
{% filter replace('a', 'b') | upper %}abca{% endfilter %}
{% generation %}x{{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}
{% raw %}{{ n }}{% if %}{# c #}{% endraw %}!
{%- raw -%}  {{ n }}  {%- endraw -%}  !
{% raw %}x
{# comment {{ n }} {% if %} #}a
{# unterminated
{% print n %}{% print n, s %}
{% include 'x' %}
{% unknown %}
{% if %}x{% endif %}
{% if n %}x
{% endif %}
{% for %}{% endfor %}
{% for x l %}{% endfor %}
{% %}
{{ }}
{{ n
{{ n }
{% if n }}x{% endif %}
{% else %}
{% if n %}{% endfor %}
{% set %}
{% set 5 = 4 %}
{% macro %}{% endmacro %}
{% for x in [1, 2, 3] if x is odd %}{{ x }}{% endfor %}
{% for x in l recursive %}{{ x }}{% endfor %}
{% for x in range(3) %}{% set ns = namespace(v=x) %}{{ ns.v }}{% endfor %}
{% for x in l %}{% if loop.first %}{% set first = x %}{% endif %}{{ first is defined }}{% endfor %}
{% if n is defined and n %}{{ n | nofilter }}{% endif %}
{% if false %}{{ n | nofilter }}{% endif %}ok
{% if false %}{% for x in l %}{{ n | nofilter }}{% endfor %}{% endif %}ok
{{ n | nofilter }}
{{ n is notest }}
{% if false %}{{ n is notest }}{% endif %}ok
{{ (n | nofilter) if false else 'y' }}
{% set ns = namespace(found=false) %}{% for x in l if not ns.found %}{{ x }}{% if x == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}
{{ raise_exception('my message') }}
{{ strftime_now('%Y-%m-%d') }}
{{ strftime_now('%d %B %Y') }}{{ strftime_now is defined }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }}
{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}
{{ range(3) }}{{ range(1, 7, 2) }}{{ range(5)[1:3] }}{{ range(3) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | length }}
{{ range(10 ** 9) }}
{{ range(1, 2, 0) }}
{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'q': 1}, z=2) }}
{{ namespace }}x{{ 1 / 0 }}
''',
    "expressions": r'''
{{ 1 + 2 * 3 - 4 / 2 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2.0 ** 0.5 }}
{{ 1 / 3 }} {{ 4 / 2 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-4 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1.0 }} {{ 123456789.123 }} {{ 1e300 * 1e10 }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5 }} {{ 1e3 }} {{ 1E-2 }}
{{ -f }} {{ +n }} {{ -t }} {{ - 3 }} {{ --3 }}
{{ 5 - -3 }} {{ 1 -1 }} {{ 3-1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'a' * -1 }} {{ 'a' * true }}
{{ 'a' * 2.0 }}
{{ [1] + [2] }} {{ (1,) + (2,) }}
{{ [1] + (2,) }}
{{ no + 1 }}
{{ d + d }}
{{ 'a' ~ 1 ~ none ~ true ~ [1, 'x'] ~ undefined_thing }}
{{ s + '!' + e + 'x' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == [1, 2] }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ d < d }}
{{ none == undefined_thing }} {{ undefined_thing == undefined_other }} {{ undefined_thing != 1 }}
{{ undefined_thing < 1 }}
{{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ 'a' in d }} {{ 'z' in d }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }} {{ 2 in range(5) }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 1 in undefined_thing }}
{{ undefined_thing in 'abc' }}
{{ not n }} {{ not not n }} {{ not e and n }} {{ n and e }}|{{ e or n }} {{ none or 0 or 'x' }} {{ 0 and 1 }}
{{ n if t else s }} {{ n if e else s }} {{ n if e }}| {{ 1 if 0 else 2 if 0 else 3 }}
{{ (n if e).x }}
{{ d.b }} {{ d['b'] }} {{ d.zzz }}| {{ d['zzz'] }}| {{ d.zzz is defined }}
{{ d.zzz.y }}
{{ undefined_thing.y }}
{{ undefined_thing['y'] }}
{{ undefined_thing() }}
{{ n.x }}| {{ s.x }}| {{ l.x }}| {{ none.x }}|
{{ n.x.y }}
{{ none.x.y }}
{{ l[0] }} {{ l[-1] }} {{ l[5] }}| {{ l['0'] }}| {{ l.0 }} {{ nested.x.y.1.z }} {{ nested['x']['y'][0] }}
{{ s[0] }} {{ s[-1] }} {{ u[1] }} {{ u[10] }} {{ s[99] }}|
{{ l[true] }} {{ l[1.0] }}|
{{ l[1:] }} {{ l[:1] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:] }} {{ l[::2] }} {{ l[2:0:-1] }} {{ l[:] }} {{ l[none:2] }}
{{ s[1:4] }} {{ s[:-6] }} {{ s[::-1] }} {{ u[3:12] }} {{ u[::-1] }} {{ s[::3] }} {{ s[10:2] }}| {{ (1, 2, 3)[1:] }}
{{ l[::0] }}
{{ l['a':] }}
{{ d[1:] }}|
{{ 5[1:] }}|
{{ undefined_thing[1:] }}
{{ [1, 2,] }} {{ (1,) }} {{ () }} {{ (1, 2) }} {{ {'a': 1, 'b': [2]} }} {{ {} }} {{ [] }} {{ {1: 2, none: 3, 1.5: 4, true: 5} }}
{{ {[1]: 2} }}
{{ 1, 2 }} {{ (1) }}
{{ {'a': {'b': {}}} }}
{{ 'a\nb\t\\ \' \x41 \u00e9 \U0001F986 \101 \q' }} {{ "it's" }} {{ 'say "hi"' }} {{ 'a' 'b' "c" }}
{{ '\x4' }}
{{ 'unterminated }}
{{ 'a' b }}
{{ 1 2 }}
{{ (1 }}
{{ [1 }}
{{ 1) }}
{{ [1) }}
{{ ? }}
{{ a.! }}
{{ $x }}
{{ 01 }}
{{ 0 }} {{ 00 }}
{{ true }} {{ True }} {{ false }} {{ None }} {{ none }} {{ TRUE }}|
{{ ['a', "b'c", 'd"e', 'é', '\n', '\x00', '\u200b', '\U0001F986', '\\'] }}
{{ [1.0, 1e100, true, none, undefined_thing] }}
{{ big }} {{ [big] }} {{ big == big }} {{ 9223372036854775807 }}
{{ t + 1 }} {{ t + t }} {{ -t }}
{{ '%s is %d and %5.2f|%-5s|%05d|%x|%%|%r|%+d|%c' % ('a', 7, 2.5, 'b', 42, 255, 'q', 3, 'z') }}
{{ '%s' % 5 }} {{ '%s' % [1] }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%s %s' % (1, 2) }} {{ '%.3s|%5s|%e|%g|%G' % ('abcdef', 'é', 1234.5, 0.00001, 1e20) }}
{{ '%d' % 'a' }}
{{ '%s' % () }}
{{ '%s' % (1, 2) }}
{{ '%q' % 1 }}
{{ '%' % 1 }}
{{ '%*d' % (5, 3) }} {{ '%-*d|' % (5, 3) }} {{ '%#x %#o' % (255, 8) }} {{ '%i %u' % (3.9, 4) }}
{{ d.items is callable }}x{{ 'a'.upper() }}{{ "a-b".split('-') }}
{{ items_dict.items is callable }} {{ items_dict['items'] }} {{ items_dict.get('items') }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.items() | list }} {{ d.keys() | length }} {{ d.items()[0] }}|
{{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.get('q', default=5) }}
{{ d.get() }}
{{ d.nomethod() }}
{{ n() }}
{{ s() }}
{{ s.upper(1) }}
{{ range is callable }}
{% set f = s.upper %}{{ f() }}
{{ [1, 2, 3][1] }} {{ {'a': 5}.a }} {{ 'abc'[1] }} {{ (1, 2)[0] }} {{ [[1, 2], [3]][0][1] }}
{{ "a" if "b" in ["b"] else "c" }} {{ 'x' in ['x'] and 'y' not in ['x'] }} {{ 1 + 1 == 2 }} {{ not 1 == 2 }}
{{ 1 if n is defined and n > 3 else 0 }} {{ n is number and n is not string }}
{{ -1 | abs }} {{ (-1) | abs }} {{ 2 ** 3 | abs }} {{ 'a' ~ 'b' | upper }} {{ 1 + 2 | string }}
{{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ l is sequence }} {{ n is eq 7 }} {{ n is not none }} {{ 5 is odd is true }}
{{ n.__class__ }}| {{ s.__len__ }}| {{ ''.__class__.__mro__ }}
{{ s.upper.__func__ }}|
{{ f * 2 }} {{ f // 1 }} {{ f % 1 }} {{ 2.0 * 3 }} {{ 1e2 }} {{ -0.0 }} {{ 100000000000000000000.0 }} {{ 1.5e-7 }}
{{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1.0} }} {{ (1, [2]) == (1, [2]) }} {{ 'a' == 'a' }} {{ none == none }} {{ [] == () }}
{{ d == {'a': 2, 'C': 3, 'b': 1} }} {{ range(3) == range(3) }} {{ range(3) == [0, 1, 2] }}
{{ 3 if true }}{{ 3 if false }}x
{{ l | length == 3 and l[0] == 3 }}
{{ "{{ x }}" }} {{ '}}' }} {{ '%}' }}
{{ {'a': 1}['a'] }}{{ {'a': 1}.get('a') }}{{{'a': 1}}}
{{ *l }}
{{ d.pop('b') if false else 'kept' }}
''',
    "filters": r'''
{{ -3 | abs }} {{ neg | abs }} {{ -2.5 | abs }}
{{ 'x' | abs }}
{{ 'hELLO wORLD' | capitalize }} {{ u | capitalize }} {{ 'ß' | upper }} {{ 'ÀÉ' | lower }}
{{ 'hello world-foo (bar) [x' | title }} {{ "it's o'neil" | title }} {{ 'HELLO' | title }} {{ ('ÀÉß' + 'ΑΣ ΑΣ-ΣΣ(ΑΣ) ') | title }}
[{{ 'ab' | center(7) }}] [{{ 'abc' | center(6) }}] [{{ 'abcdef' | center(3) }}]
{{ undefined_thing | default }}| {{ undefined_thing | default('x') }} {{ e | default('x') }}| {{ e | default('x', true) }} {{ no | default('x') }} {{ no | default('x', boolean=true) }} {{ undefined_thing | d(5) }} {{ d.zzz | default(default_value=3) }}
{{ undefined_thing.x | default('y') }}
{{ d | dictsort }} {{ d | dictsort(true) }} {{ d | dictsort(false, 'value') }} {{ d | dictsort(reverse=true) }} {{ d | dictsort(by='value', reverse=true) }}
{{ d | dictsort(by='x') }}
{{ l | dictsort }}
{{ html | escape }} {{ html | e }} {{ html | e | e }} {{ html | forceescape }} {{ html | e | forceescape }}
{{ html | safe }} {{ '<' ~ (html | safe) }} {{ (html | safe) + '<' }} {{ '<' + (html | e) }} {{ (html | safe) ~ '<' }}
{{ ('<a>' | safe) % () }} {{ ('%s' | safe) % '<' }} {{ [('a' | safe)] }} {{ ('a' | safe) | upper }} {{ ('x' | safe) == 'x' }}
{{ 1 | filesizeformat }} {{ 300 | filesizeformat }} {{ 1500 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 2048 | filesizeformat(true) }}
{{ l | first }} {{ [] | first }}| {{ 'abc' | first }} {{ d | first }} {{ l | last }} {{ [] | last }}| {{ 'abc' | last }} {{ d | last }}
{{ 5 | first }}
{{ undefined_thing | first }}|{{ undefined_thing | last }}|
{{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ ' 1e3 ' | float }} {{ 'inf' | float }} {{ none | float }} {{ '1_0' | float }} {{ 'nan' | float }}
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ '3.7' | int }} {{ '0x1f' | int(base=16) }} {{ 'ff' | int(0, 16) }} {{ none | int }} {{ true | int }} {{ [] | int(5) }} {{ ' 12 ' | int }} {{ '1_000' | int }} {{ '-5' | int }} {{ '101' | int(base=2) }}
{{ undefined_thing | int }}
{{ undefined_thing | float }}
{{ '%s-%s' | format(1, 'a') }} {{ '%(x)s' | format(x=3) }}
{{ '%s' | format }}
{% for g in people | groupby('age') %}{{ g.grouper }}:{{ g.list | length }};{{ g[0] }}{% endfor %}
{% for age, list in people | groupby('age') %}{{ age }}:{{ list | map(attribute='name') | join(',') }};{% endfor %}
{{ words | groupby('0') | map('first') | list }}
{% for k, v in people | groupby('ok', default=false) %}{{ k }}{{ v | length }};{% endfor %}
{{ lines | indent }}|
{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | indent('> ', first=true) }}|{{ '' | indent(first=true) }}|
{{ 5 | indent }}
{{ d | items | list }} {{ undefined_thing | items | list }}
{{ l | items | list }}
{{ l | join }} {{ l | join(', ') }} {{ people | join('|', attribute='name') }} {{ [1, none, true, 'x'] | join('-') }} {{ 'abc' | join('.') }} {{ [] | join }}| {{ l | join(d='+') }} {{ l | join(1) }}
{{ 5 | join }}
{{ l | length }} {{ s | length }} {{ u | length }} {{ d | length }} {{ l | count }} {{ undefined_thing | length }}
{{ 5 | length }}
{{ none | length }}
{{ 'abc' | list }} {{ d | list }} {{ (1, 2) | list }} {{ range(3) | list }} {{ undefined_thing | list }}
{{ 5 | list }}
{{ words | map('upper') | list }} {{ people | map(attribute='name') | list }} {{ people | map(attribute='tags.0') | list }} {{ people | map(attribute='tags.0', default='-') | list }} {{ l | map('string') | join }} {{ words | map('replace', 'a', 'X') | list }} {{ [] | map('nofilter') | list }}
{{ l | map | list }}
{{ l | map('nofilter') | list }}
{{ people | map(attribute='tags') | list }}
{{ l | map('upper') | length }}
{{ l | max }} {{ l | min }} {{ words | max }} {{ words | min }} {{ words | min(true) }} {{ people | max(attribute='age') }} {{ [] | max }}| {{ ['a', 'B'] | max(case_sensitive=true) }}
{{ [1, 'a'] | max }}
{{ l | reject('odd') | list }} {{ l | select('odd') | list }} {{ [0, 1, '', 'x'] | select | list }} {{ [0, 1, ''] | reject | list }} {{ l | select('gt', 1) | list }} {{ l | select('in', [1, 2]) | list }} {{ l | select('divisibleby', 2) | list }} {{ l | reject('==', 1) | list }}
{{ people | selectattr('ok') | map(attribute='name') | list }} {{ people | rejectattr('ok') | map(attribute='name') | list }} {{ people | selectattr('age', 'equalto', 30) | list | length }} {{ people | selectattr('ok', 'defined') | list | length }} {{ people | rejectattr('name', 'in', ['al']) | list | length }} {{ people | selectattr('tags', 'undefined') | list | length }}
{{ people | selectattr | list }}
{{ l | select('notest') | list }}
{% if [] | select %}truthy{% endif %} {{ (l | select('odd')) is iterable }} {{ (l | map('string')) is sequence }}
{% set g = l | map('string') %}{{ g | list }}{{ g | list }}
{% set g = l | map('string') %}{{ g | first }}{{ g | list }}
{{ 'abcabc' | replace('a', 'x') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 5 | replace(5, 6) }} {{ 'abc' | replace('', '-', 2) }} {{ 'aXa' | replace(old='a', new='b') }}
{{ 'a' | replace('a') }}
{{ l | reverse | list }} {{ 'abc' | reverse }} {{ u | reverse }} {{ d | reverse | list }}
{{ 5 | reverse }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.4 | round(method='ceil') }} {{ 2.6 | round(0, 'floor') }} {{ 42 | round }} {{ 1234 | round(-2) }} {{ 1250 | round(-2) }} {{ 42 | round(1, 'floor') }} {{ 1234.5 | round(-2) }} {{ 0.5 | round }} {{ -2.5 | round }} {{ 1.15 | round(1) }}
{{ 'x' | round }}
{{ 1 | round(0, 'x') }}
{{ l | slice(2) | list }} {{ range(7) | slice(3, 'x') | list }} {{ range(5) | batch(2) | list }} {{ range(5) | batch(2, '-') | list }}
{{ l | sort }} {{ l | sort(true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='name') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ people | sort(reverse=true, attribute='age') | map(attribute='name') | list }} {{ 'bca' | sort }}
{{ [1, 'a'] | sort }}
{{ [none, 1] | sort }}
{{ 5 | string }} {{ none | string }} {{ [1] | string }} {{ undefined_thing | string }}| {{ 1.0 | string | length }} {{ true | string }}
{{ l | sum }} {{ [1.5, 2] | sum }} {{ people | sum(attribute='age') }} {{ [[1], [2]] | sum(start=[]) }} {{ [] | sum }} {{ l | sum(start=10) }}
{{ ['a'] | sum }}
{{ ws | trim }}| {{ 'xxaxx' | trim('x') }} {{ '\u00a0é\u3000' | trim }} {{ 5 | trim }} {{ none | trim }} {{ undefined_thing | trim }}|
{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(9, leeway=0) }} {{ 'foo bar baz qux' | truncate(7, false, '!', 0) }} {{ 'foobarbazqux' | truncate(8, leeway=0) }}
{{ 'foo' | truncate(2) }}
{{ 'foo bar baz' | truncate(2, leeway=0) }}
{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ [1, 1.0, true, 2] | unique | list }}
{{ 'a b&c/d?é' | urlencode }} {{ {'a': 1, 'b c': 'x y'} | urlencode }}
{{ 'foo, bar baz-qux it_is' | wordcount }} {{ 'žluť日本 x' | wordcount }}
{{ 'Hello' | upper | lower | title }}
{{ d | tojson }} {{ l | tojson }} {{ s | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ f | tojson }} {{ 1.0 | tojson }} {{ 1e-7 | tojson }} {{ none | tojson }} {{ true | tojson }} {{ (1, 2) | tojson }} {{ big | tojson }} {{ [] | tojson }} {{ {} | tojson }}
{{ html | tojson }} {{ '\n\t\r\b\f\\"/\x01\x7f\u2028' | tojson }} {{ '\x7f' | tojson(ensure_ascii=true) }}
{{ nested | tojson(indent=2) }}
{{ nested | tojson(indent=0) }} {{ [] | tojson(indent=4) }} {{ [[]] | tojson(indent='--') }}
{{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(indent=1, separators=(', ', '=')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ undefined_thing | tojson }}
{{ range(2) | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ d.items() | tojson }}
{{ [1, undefined_thing] | tojson }}
{{ (0.0 / 1) | tojson }} {{ (1e308 * 10) | tojson }}
{{ 'x' | tojson | safe }} {{ '"' | tojson | tojson }} {{ d | tojson | length }}
{{ 'x' | attr('upper') is callable }} {{ d | attr('b') }}|
{{ 'ab' | upper() }} {{ 'ab' | upper(1) }}
{{ 'ab' | default(1, 2, 3) }}
{{ 'ab' | default(nope=1) }}
{{ undefined_thing | upper }}| {{ undefined_thing | join }}| {{ undefined_thing | sort }} {{ undefined_thing | reverse | list }} {{ undefined_thing | map('upper') | list }} {{ undefined_thing | sum }}
''',
    "tests": r'''
{% for x in [1, 1.5, true, none, 's', [], (), {}, range(2)] %}{{ x is number }}{{ x is integer }}{{ x is float }}{{ x is boolean }}{{ x is none }}{{ x is string }}{{ x is sequence }}{{ x is iterable }}{{ x is mapping }}{{ x is callable }};{% endfor %}
{{ undefined_thing is number }}{{ undefined_thing is integer }}{{ undefined_thing is boolean }}{{ undefined_thing is none }}{{ undefined_thing is string }}{{ undefined_thing is sequence }}{{ undefined_thing is iterable }}{{ undefined_thing is mapping }}
{{ undefined_thing is defined }}{{ undefined_thing is undefined }}{{ n is defined }}{{ d.q is undefined }}{{ d.b is defined }}
{{ 2 is even }}{{ 3 is even }}{{ 3 is odd }}{{ 2.0 is even }}
{{ 's' is even }}
{{ 4 is divisibleby 2 }}{{ 5 is divisibleby(2) }}
{{ 5 is divisibleby 0 }}
{{ 1 is eq 1 }}{{ 1 is equalto 2 }}{{ 1 is == 1 }}
{{ 1 is eq(1) }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 1 is lessthan 2 }}{{ 1 is le 1 }}{{ 2 is gt 1 }}{{ 2 is greaterthan 1 }}{{ 2 is ge 3 }}
{{ 'a' is lt 1 }}
{{ 1 is in [1, 2] }}{{ 'a' is in 'abc' }}{{ 3 is not in [1] }}{{ 1 is in(l) }}
{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 0 is false }}{{ none is false }}
{{ none is sameas none }}{{ true is sameas true }}{{ 1 is sameas true }}{{ l is sameas l }}
{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 'aBc' is lower }}{{ '1' is lower }}{{ 5 is upper }}
{{ 'upper' is filter }}{{ 'zzz' is filter }}{{ 'odd' is test }}{{ 'zzz' is test }}
{{ html is escaped }}{{ (html | e) is escaped }}
{{ range is callable }}{{ s.upper is callable }}{{ n is callable }}
{{ n is not defined }}{{ n is not string }}{{ not n is string }}
{{ n is string or n is number }}{{ n is number and s is string }}{{ 1 if n is number else 2 }}
{{ n is is }}
{{ d.items() is sequence }}{{ d.items() is iterable }}{{ d.keys() is mapping }}{{ namespace() is mapping }}{{ big is number }}{{ big is integer }}
{{ strftime_now is defined }}{{ namespace is defined }}{{ raise_exception is callable }}
''',
    "methods": r'''
{{ s.upper() }}{{ s.lower() }}{{ s.title() }}{{ s.capitalize() }}{{ s.swapcase() }}{{ "they're bill's" .title() }}{{ u.upper() }}{{ u.title() }}
[{{ ws.strip() }}][{{ ws.lstrip() }}][{{ ws.rstrip() }}][{{ 'xyaxy'.strip('xy') }}][{{ 'xya'.lstrip('yx') }}][{{ 'axé'.rstrip('éx') }}][{{ 'a'.strip(none) }}]
{{ 'a b  c '.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a b c '.split(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'aXXb'.split('XX') }}{{ 'a,b'.split(sep=',', maxsplit=0) }}{{ '  '.split() }}
{{ 'a'.split('') }}
{{ 'a b  c '.rsplit() }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b c '.rsplit(none, 1) }}{{ 'a,b,c'.rsplit(',') }}{{ 'a b'.rsplit(none, 0) }}{{ ' a b '.split(none, 0) }}
{{ lines.splitlines() }}{{ lines.splitlines(true) }}{{ ''.splitlines() }}{{ 'a\x0bb\x0cc\u2028d\x85e'.splitlines() }}
{{ s.startswith('Hell') }}{{ s.endswith('ld') }}{{ s.startswith(('x', 'H')) }}{{ s.startswith('ello', 1) }}{{ s.endswith('lo', 0, 5) }}{{ s.endswith('') }}{{ s.startswith('', 99) }}
{{ s.startswith(1) }}
{{ s.replace('l', 'L') }}{{ s.replace('l', 'L', 1) }}{{ 'ab'.replace('', '-') }}{{ 'aaa'.replace('aa', 'b') }}{{ ''.replace('', 'x') }}
{{ s.replace('l') }}
{{ s.replace('l', 1) }}
{{ s.find('o') }}{{ s.find('z') }}{{ s.rfind('o') }}{{ s.index('l') }}{{ u.find('日') }}{{ s.find('o', 5) }}{{ s.find('o', 0, 3) }}{{ s.find('o', -3) }}{{ s.find('', 50) }}{{ s.rindex('l') }}
{{ s.index('z') }}
{{ s.count('l') }}{{ s.count('') }}{{ s.count('l', 5) }}{{ 'aaaa'.count('aa') }}
{{ ', '.join(['a', 'b']) }}{{ ''.join('abc') }}{{ '-'.join([]) }}{{ '-'.join(d) }}
{{ ','.join([1]) }}
{{ '{} {} {}'.format(1, 'a', [2]) }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x}-{y!r}'.format(x=1, y='q') }}{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:.2f}|{:,}|{:x}|{:#X}|{:b}|{:+}|{:e}|{:%}|{:g}'.format('a', 'b', 'c', 'd', 42, 3.14159, 1234567, 255, 255, 5, 3, 12345.678, 0.25, 1e10) }}{{ '{{}}'.format() }}
{{ '{a[0]}{a[1]}{d[k]}'.format(a=[1, 2], d={'k': 3}) }}{{ '{:{}}|'.format('x', 4) }}{{ '{0:{w}}|'.format(5, w=4) }}{{ '{:.3}'.format('abcdef') }}{{ '{:d}'.format(5) }}{{ '{:s}'.format('x') }}{{ '{:.1f}'.format(2) }}{{ '{:_}'.format(1234567) }}{{ '{:,.2f}'.format(1234567.891) }}
{{ '{}'.format() }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '{:q}'.format(1) }}
{{ '5'.isdigit() }}{{ ''.isdigit() }}{{ '5a'.isdigit() }}{{ 'ab'.isalpha() }}{{ 'é日'.isalpha() }}{{ 'a1'.isalnum() }}{{ ' \t'.isspace() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ 'Ab Cd'.istitle() }}{{ '½'.isdigit() }}{{ '²'.isdigit() }}{{ '5'.isdecimal() }}{{ 'a'.isascii() }}{{ 'é'.isascii() }}{{ 'a\n'.isprintable() }}
[{{ 'a'.center(5) }}][{{ 'ab'.center(5, '*') }}][{{ 'a'.ljust(3) }}][{{ 'a'.rjust(3, '-') }}][{{ '-5'.zfill(4) }}][{{ '5'.zfill(3) }}][{{ 'abc'.zfill(2) }}]
{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'abc'.partition('=') }}{{ 'abc'.rpartition('=') }}
{{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.py'.removesuffix('.py') }}{{ 'x'.removesuffix('y') }}
[{{ 'a\tb'.expandtabs(4) }}]{{ 'ABC'.casefold() }}
{{ l.index(1) }}{{ l.count(3) }}{{ (1, 2, 2).count(2) }}{{ (1, 2).index(2) }}
{{ l.index(99) }}
{{ d.keys() | list }}{{ d.values() | list }}{{ d.items() | list }}{{ d.copy() }}{{ l.copy() }}
{% for k, v in d.items() | list %}{{ k }}{{ v }}{% endfor %}
{{ n.bit_length() }}{{ 2.0.is_integer() }}{{ f.is_integer() }}
{{ d.get([1]) }}
{{ d.get({}) }}
{{ s.nomethod() }}
{{ s.encode() }}x{{ 1 / 0 }}
{{ ('<' | safe).upper() }}{{ ('a' | safe).replace('a', '<') }}{{ ('a,b' | safe).split(',') }}
''',
    "whitespace": None,
    "changing": r'''
{% set x = [] %}{% set _ = x.append(1) %}{% set _ = x.append([2]) %}{{ x }}{{ x.pop() }}{{ x }}
{% set x = [1, 2, 3] %}{{ x.pop(0) }}{{ x }}{{ x.pop(-1) }}{{ x }}
{{ [].pop() }}
{{ [1].pop(5) }}
{% set x = [1, 2] %}{% set _ = x.insert(0, 'a') %}{% set _ = x.insert(-1, 'b') %}{% set _ = x.insert(99, 'c') %}{{ x }}
{% set x = [1] %}{% set _ = x.extend([2, 3]) %}{% set _ = x.extend('ab') %}{% set _ = x.extend(x) %}{{ x }}
{% set x = [3, 1, 2] %}{% set _ = x.sort() %}{{ x }}{% set _ = x.reverse() %}{{ x }}{% set _ = x.sort(reverse=true) %}{{ x }}{% set _ = x.remove(2) %}{{ x }}{% set _ = x.clear() %}{{ x }}
{{ [1].remove(5) }}
{% set x = {'a': 1} %}{% set _ = x.update({'b': 2}) %}{% set _ = x.update(c=3) %}{% set _ = x.update([('d', 4)]) %}{{ x }}{{ x.pop('a') }}{{ x.pop('zz', 5) }}{{ x }}{{ x.setdefault('q', 9) }}{{ x.setdefault('b', 9) }}{{ x.popitem() }}{{ x }}{% set _ = x.clear() %}{{ x }}
{{ {}.pop('a') }}
{{ {}.popitem() }}
{% set x = [1] %}{% for i in x %}{{ i }}{% if i < 3 %}{% set _ = x.append(i + 1) %}{% endif %}{% endfor %}{{ x }}
{% set x = [] %}{% set _ = x.append(x) %}{{ x | length }}
{% set x = {} %}{% for i in range(20) %}{% set _ = x.update({i: i * i}) %}{% endfor %}{{ x }}{{ x[7] }}{{ x.pop(3) }}{{ x[19] }}{{ 3 in x }}{{ x[2.0] }}
{% set x = {} %}{% for i in 'the quick brown fox jumps' %}{% set _ = x.update({i: x.get(i, 0) + 1}) %}{% endfor %}{{ x }}{{ x.t }}
{{ '{"a": [1, 2.5, null, true, "\\u00e9\\ud83e\\udd86\\n"]}' | from_json }}{{ '[1]' | from_json | length }}{{ ' 5 ' | from_json }}{{ '"x"' | from_json }}
{{ '{a: 1}' | from_json }}
{{ '[1,]' | from_json }}
{{ '' | from_json }}
{{ '"a' | from_json }}
{{ '01' | from_json }}
{{ '{"a": 1, "b": 2, "a": 3}' | from_json }}
''',
}

WHITESPACE = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}  \n  b\n  {% endif %}  \nc\n\n", "  {{ n }}  \n  {{ n }}\n", "a {%- if t -%} b {%- endif -%} c",
    "a  {{- n -}}  b", "a\n\n{{- n -}}\n\nb", "  {%+ if t %}x{% endif +%}\ny", "  {% if t +%}\nx{% endif %}", "{# c #}\na\n  {# c #}\nb\n  {#- c -#}  \n c",
    "a\r\nb\rc\n{{ n }}\r\n", "x\n", "x\n\n", "\n", "", "\n\n{% if t %}\n\n{% endif %}\n\n", "a {% if t %} b {% endif %} c", "\t {% set x = 1 %}\t\nq",
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "{%- for x in l -%}\n  {{ x }}\n{%- endfor -%}\n", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\nend",
    "a{#- x -#}   b", "a   {#+ x +#}\nb", "   {#+ x #}\nb", "{{ n }}\n{{ n }}\n", "{{ n -}}\n\n  {{ n }}", "\u00a0{%- if t %}x{% endif -%}\u3000y",
    "{% raw %}\n x \n{% endraw %}\n y", "  {% raw %}  a  {% endraw %}  \nb", "a {%- raw -%} b {%- endraw -%} c", "a\n  {% raw +%}x{% endraw %}", "{%raw%}{{x}}{%endraw%}\n\n.",
    "{%if t%}x{%endif%}", "{{n}}{{-n-}}{{ -n }}", "{{'a'}}{%set x='b'%}{{x}}", "{%\n  if\n  t\n%}\nx{%\tendif\t%}", "{{\nn\n}}", "{ {n} } {% if t %}{ {% endif %}#}{ # }%}}}",
    "a{{ '\n' }}b\n{%- if t %}\n\n\nx{% endif %}", "  {%- if t %}x{% endif %}", "x  \n  {%- if t %}y{% endif %}", "{{ n }}  {% if t %}y{% endif %}", "line\n{{ n }} {% if t %}\nz\n{% endif %}",
    "{% if t %}\r\nx\r\n{% endif %}\r\n", "{{ '{%' }}{{ '%}' }}{{ '{{' }}", "{# {{ #}x{# }} #}", "{#-#}a{##}b", "{#-", "{#", "{{", "{%", "{", "a{", "{}", "{{ {} }}", "{{ {'a':{}} }}",
    "{{ {'a':{'b':1}}}}", "{%- set x = {'a': {'b': 2}} -%}\n{{ x.a.b }}", "   \n   {% set a = 1 %}\n   {{ a }}\n   {% set b = 2 %}   \n   {{ b }}",
    "{% if t %}{% endif %}\n\n\n{% if t %}{% endif %}\n", "{% macro m() %}\n x\n{% endmacro %}\n{{ m() }}\n", "{%- macro m() -%}\n x\n{%- endmacro -%}\n\n{{ m() }}",
    "<|im_start|>{{ s }}<|im_end|>\n", "{{ s }}{# a #}\n{{ s }}", "{{ s }} {# a #}\n{{ s }}", "a\n {#- b #}\nc", "{% set x %}\n a\n{% endset %}\n[{{ x }}]", "{% filter upper %}\n a\n{% endfilter %}\nb",
]


def main():
    data = pathlib.Path(__file__).parent / "data"
    data.mkdir(exist_ok=True)
    (data / "context.json").write_text(json.dumps(CONTEXT, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    total = 0
    for subject, text in SNIPPETS.items():
        sources = WHITESPACE if text is None else [s for s in text.split("\n") if s]
        cases = []
        for source in sources:
            want, error = oracle.render(source, json.loads(json.dumps(CONTEXT)), immutable=subject != "changing")
            if want is not None and (" at 0x" in want or "<class" in want):
                raise SystemExit(f"not the same twice: {source}: {want}")
            cases.append({"source": source, "text": want} if error is None else {"source": source, "error": error})
        total += len(cases)
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        (data / f"{subject}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{total} snippets")


if __name__ == "__main__":
    main()
