#!/usr/bin/env python3
"""Frequencies of rotary positions by the formulas of their papers, in float64: writes data/rope.txt.

    make_rope.py > data/rope.txt

A case is a line `case NAME`, lines `KEY VALUE` (hyper-parameters as GGUF has them), lines `tensor NAME NUMBERS…`, and `expect MAGNITUDE RADIANS…`.
The variants: none and linear (position interpolation, Chen et al. 2023), YaRN (Peng et al. 2023, sec. 3 and A.2), Llama 3.1 (the model
card's apply_scaling; its factors reach GGUF as a tensor), LongRoPE (Ding et al. 2024).
"""
import math


def base_frequencies(dim, base):
    return [base ** (-2 * i / dim) for i in range(dim // 2)]


def yarn(dim, base, factor, original, fast=32.0, slow=1.0):
    """Interpolates pairs of long wavelengths, keeps those of short ones, ramps between; NTK by parts."""
    def dimension(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(dimension(fast)), 0), min(math.ceil(dimension(slow)), dim - 1)
    high += 0.001 if low == high else 0
    result = []
    for i, f in enumerate(base_frequencies(dim, base)):
        ramp = min(1.0, max(0.0, (i - low) / (high - low)))
        result.append(f / factor * ramp + f * (1 - ramp))
    return result, 0.1 * math.log(factor) + 1


def llama3(dim, base, factor, low_factor, high_factor, original):
    result = []
    for f in base_frequencies(dim, base):
        wavelength = 2 * math.pi / f
        if wavelength < original / high_factor:
            result.append(f)
        elif wavelength > original / low_factor:
            result.append(f / factor)
        else:
            smooth = (original / wavelength - low_factor) / (high_factor - low_factor)
            result.append((1 - smooth) * f / factor + smooth * f)
    return result


def case(name, keys, radians, magnitude=1.0, tensors=()):
    print(f"case {name}")
    for key, value in keys.items():
        print(key, value)
    for tensor, values in tensors:
        print("tensor", tensor, *(f"{v:.9g}" for v in values))
    print("expect", f"{magnitude:.17g}", *(f"{r:.17g}" for r in radians))


def main():
    def shape(dim, base, context=4096):
        return {"rope.dimension_count": dim, "rope.freq_base": float(base), "context_length": context}

    for dim, base in (64, 10000), (80, 10000), (128, 500000), (16, 1000000):
        case(f"none {dim} {base}", shape(dim, base), base_frequencies(dim, base))
    for factor in 2.0, 4.0, 7.5:
        keys = {"rope.scaling.type": "linear", "rope.scaling.factor": factor}
        case(f"linear {factor}", shape(64, 10000) | keys, [f / factor for f in base_frequencies(64, 10000)])
    case("linear by its old name", shape(64, 10000) | {"rope.scale_linear": 4.0}, [f / 4 for f in base_frequencies(64, 10000)])
    case("a factor without a type is linear", shape(64, 10000) | {"rope.scaling.factor": 4.0}, [f / 4 for f in base_frequencies(64, 10000)])
    case("type none", shape(64, 10000) | {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, base_frequencies(64, 10000))

    for dim, base, factor, original in (64, 10000, 4.0, 4096), (128, 10000, 16.0, 4096), (128, 1000000, 4.0, 32768), (64, 10000, 2.0, 128):
        radians, magnitude = yarn(dim, base, factor, original)
        keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": factor, "rope.scaling.original_context_length": original}
        case(f"yarn {dim} {base} {factor} {original}", shape(dim, base, int(original * factor)) | keys, radians, magnitude)
    radians, magnitude = yarn(128, 10000, 8.0, 2048, 16.0, 2.0)
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 2048,
            "rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_beta_slow": 2.0, "rope.scaling.attn_factor": 1.25}
    case("yarn with its own borders and attention factor", shape(128, 10000, 16384) | keys, radians, magnitude * 1.25)

    for dim, factor in (128, 8.0), (64, 32.0):
        radians, plain = llama3(dim, 500000, factor, 1.0, 4.0, 8192), base_frequencies(dim, 500000)
        case(f"llama3 {dim} {factor}", shape(dim, 500000, 131072), radians, tensors=[("rope_freqs.weight", [p / r for p, r in zip(plain, radians)])])

    plain = base_frequencies(32, 10000)
    short, long = [1 + 0.05 * i for i in range(16)], [1.5 + i * i for i in range(16)]
    tensors = [("rope_factors_short.weight", short), ("rope_factors_long.weight", long)]
    for context, factors in (4096, short), (131072, long):
        keys = {"rope.scaling.type": "longrope", "rope.scaling.original_context_length": 4096, "rope.scaling.attn_factor": 1.190238}
        case(f"longrope {context}", shape(32, 10000, context) | keys, [p / f for p, f in zip(plain, factors)], 1.190238, tensors)


main()
