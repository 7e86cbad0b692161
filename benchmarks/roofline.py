#!/usr/bin/env python3
"""Draws the roofline of a profile as SVG: what each op reaches, under what the machine allows (Williams, Waterman, Patterson 2009).

    roofline.py PROFILE.json OUT.svg [--title TEXT] [--groups N]

PROFILE.json is what `quern bench MODEL --profile --json` prints or `quern run MODEL --profile F.json` writes. One point an op and set of sizes,
for the N sets that took longest (default 2). Across: operations for each byte that must come from memory; up: operations a second; the area of
a point is its share of the time. A hollow point's operands all stay in the caches, so its place across counts those bytes instead, and the
slope does not bind it.
"""
import argparse
import html
import json
import math
import sys

WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 64, 120
COLORS = ("#1b6ca8", "#c2571a", "#3f7d3a", "#7a4a9e")
LEAST_SHARE, LEAST_NAMED = 0.005, 0.02  # of the time: less is not drawn, or has no name beside it


def group_name(sizes):
    """What a language model's sizes mean; other models' are told as they are."""
    tokens, rows = sizes.get("tokens"), sizes.get("rows")
    if tokens is None or rows is None:
        return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "one run"
    if tokens == rows:
        return "decode, one sequence" if tokens == 1 else f"decode, {tokens} sequences"
    return f"prefill, {tokens} tokens"


def points_of(group):
    by_op = {}
    for kernel in group["kernels"]:
        sums = by_op.setdefault(kernel["op"], {"time_s": 0, "operations": 0, "bytes": 0, "memory_bytes": 0})
        for key in sums:
            sums[key] += kernel[key]
    for op, s in sorted(by_op.items()):
        share = s["time_s"] / group["wall_s"]
        if s["operations"] > 0 and s["bytes"] > 0 and share >= LEAST_SHARE:
            cached = s["memory_bytes"] == 0
            yield {"op": op, "share": share, "cached": cached, "speed": s["operations"] / s["time_s"],
                   "intensity": s["operations"] / (s["bytes"] if cached else s["memory_bytes"])}


class Axis:
    """A logarithmic scale over whole decades that hold all values, from pixel `at` on, `size` long (negative: upwards)."""

    def __init__(self, values, at, size):
        self.first = math.floor(math.log10(min(values)))
        self.last = max(math.ceil(math.log10(max(values))), self.first + 1)
        self.at, self.size = at, size

    def __call__(self, value):
        return self.at + self.size * (math.log10(value) - self.first) / (self.last - self.first)

    def decades(self):
        return [10.0**e for e in range(self.first, self.last + 1)]


def number(value):
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.3g} "


def text(x, y, words, size=13, anchor="start", color="#222", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{extra}>{html.escape(words)}</text>'


def draw(profile, title, most_groups):
    groups = profile["groups"][:most_groups]
    limits = profile["limits"]
    memory = limits["memory_read_bytes_per_s"]
    peaks = [(name, limits[key]) for name, key in (("f32", "f32_flops"), ("bf16", "bf16_flops"), ("int8", "int8_ops"))]
    phases = [(group_name(g["sizes"]), list(points_of(g)), g) for g in groups]
    points = [p for _, some, _ in phases for p in some]
    if not points:
        sys.exit("roofline.py: nothing in this profile counts its operations")
    ridges = [peak / memory for _, peak in peaks]
    across = Axis([p["intensity"] for p in points] + ridges, LEFT, WIDTH - LEFT - RIGHT)
    up = Axis([p["speed"] for p in points] + [peak for _, peak in peaks], HEIGHT - BOTTOM, -(HEIGHT - TOP - BOTTOM))
    left, right = across.decades()[0], across.decades()[-1]
    bottom = up.decades()[0]

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', text(LEFT, 28, title, 18)]
    machine = profile["machine"]
    out.append(text(LEFT, 48, f'{machine["cpu"]}, {machine["workers"]} workers, {machine["isa"]}; limits measured in the same run', 12, color="#666"))
    for x in across.decades():
        out.append(f'<path d="M{across(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>')
        out.append(text(across(x), HEIGHT - BOTTOM + 18, f"{x:g}", 12, "middle", "#666"))
    for y in up.decades():
        out.append(f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        out.append(text(LEFT - 8, up(y) + 4, number(y) + "op/s", 12, "end", "#666"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, "operations for each byte from memory", 13, "middle"))

    highest = max(peak for _, peak in peaks)
    start = max(left, bottom / memory)
    out.append(f'<path d="M{across(start):.1f} {up(start * memory):.1f}L{across(highest / memory):.1f} {up(highest):.1f}" stroke="#444" '
               'stroke-width="2" fill="none"/>')
    middle = math.sqrt(start * highest / memory)
    angle = math.degrees(math.atan2(up(highest) - up(start * memory), across(highest / memory) - across(start)))
    out.append(text(across(middle), up(middle * memory) - 8, f"memory {memory * 1e-9:.1f} GB/s", 12, "middle", "#444",
                    f' transform="rotate({angle:.1f} {across(middle):.1f} {up(middle * memory) - 8:.1f})"'))
    for name, peak in peaks:
        out.append(f'<path d="M{across(peak / memory):.1f} {up(peak):.1f}H{WIDTH - RIGHT}" stroke="#444" stroke-width="2"/>')
        out.append(text(WIDTH - RIGHT, up(peak) - 6, f"{name} {number(peak)}op/s", 12, "end", "#444"))

    labels = [(WIDTH - RIGHT - 120, up(peak) - 6, 16) for _, peak in peaks]  # places taken, so that words do not lie on words
    for (_, some, _), color in zip(phases, COLORS):
        for p in sorted(some, key=lambda p: -p["share"]):
            x, y, radius = across(p["intensity"]), up(p["speed"]), 4 + 22 * math.sqrt(p["share"])
            fill = 'fill="none"' if p["cached"] else f'fill="{color}" fill-opacity="0.55"'
            words = f'{p["op"]} {100 * p["share"]:.0f} %'
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {fill} stroke="{color}" stroke-width="1.5"><title>'
                       f'{html.escape(p["op"])}: {p["intensity"]:.3g} op/byte, {p["speed"] * 1e-9:.4g} Gop/s</title></circle>')
            if p["share"] < LEAST_NAMED:
                continue
            left_side = x + radius + 4 + 7 * len(words) > WIDTH - RIGHT
            at_x, at_y = (x - radius - 4 if left_side else x + radius + 4), y + 4
            while any(abs(at_y - b) < 14 and abs(at_x - a) < 7 * max(len(words), n) for a, b, n in labels) and at_y < HEIGHT - BOTTOM:
                at_y += 14
            labels.append((at_x, at_y, len(words)))
            out.append(text(at_x, at_y, words, 12, "end" if left_side else "start", color))

    for i, ((name, _, group), color) in enumerate(zip(phases, COLORS)):
        y = HEIGHT - 54 + 20 * i - 20 * (len(phases) - 2)
        waiting = sum(k["waiting_s"] for k in group["kernels"]) + group["idle_s"]
        out.append(f'<circle cx="{LEFT + 6}" cy="{y - 4}" r="6" fill="{color}" fill-opacity="0.55" stroke="{color}"/>')
        out.append(text(LEFT + 20, y, f'{name}: {1e3 * group["wall_s"] / group["runs"]:.2f} ms a run, workers wait or idle '
                                      f'{100 * waiting / group["wall_s"]:.0f} % of it', 13))
    out.append(text(LEFT, HEIGHT - 12, "Area: share of the time. Hollow: operands in the caches.", 12, color="#666"))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("out")
    parser.add_argument("--title", default="Roofline")
    parser.add_argument("--groups", type=int, default=2, choices=range(1, len(COLORS) + 1))
    args = parser.parse_args()
    with open(args.profile, encoding="utf-8") as file:
        content = json.load(file)
    profile = content.get("profile") or content.get("quern")
    if profile is None:
        sys.exit(f"roofline.py: {args.profile} holds no profile")
    svg = draw(profile, args.title, args.groups)
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(svg)


if __name__ == "__main__":
    main()
