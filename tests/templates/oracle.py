"""The environment transformers sets up for chat templates, in plain jinja2: the oracle of the template engine."""
import datetime
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import SandboxedEnvironment, ImmutableSandboxedEnvironment

NOW = 1767225845  # 2026-01-01 00:04:05 UTC


class Generation(Extension):
    """{% generation %}: marks what the assistant said; the text is as without it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW).strftime(form)


class Slicing(ImmutableSandboxedEnvironment):
    """Slices that fail at run time fail while compiling too, so that jinja2 leaves them for run time."""

    def getitem(self, obj, argument):
        return obj[argument] if isinstance(argument, slice) else super().getitem(obj, argument)


def environment(immutable=True, slices=False):
    """`immutable` is what transformers has. The engine also lets a template change its own lists and dicts, and has from_json, as llama.cpp."""
    base = Slicing if slices else ImmutableSandboxedEnvironment if immutable else SandboxedEnvironment
    env = base(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    if not immutable:
        env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(source, context, immutable=True, slices=False):
    """(text, None) or (None, error)."""
    try:
        return environment(immutable, slices).from_string(source).render(**context), None
    except Exception as error:  # whatever Python raises is an error of the template
        return None, f"{type(error).__name__}: {error}"
