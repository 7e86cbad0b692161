#!/usr/bin/env bash
# The engine: random requests with injected failures, as it is and under the thread and address sanitizers
#
#   ./dev conformance engine [MINUTES [SEED]]     ten minutes for each of the three by default
#
# Every request must end, with the bits it has when it runs alone, and memory must not grow (tests/engine/engine_soak.cc).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
minutes=${1:-10} seed=${2:-1} failed=()
for preset in release tsan asan; do
  folder=$root/build/$preset
  [ -e "$folder/build.ninja" ] || cmake -S "$root" --preset $preset -DQUERN_BENCHMARKS=OFF >/dev/null
  ninja --quiet -C "$folder" engine_soak
  echo "engine: $preset, $minutes minutes"
  # Freed memory goes back at once but for a little, or it would count as in use.
  TSAN_OPTIONS="halt_on_error=1 history_size=2" ASAN_OPTIONS="quarantine_size_mb=1 detect_leaks=1" UBSAN_OPTIONS="halt_on_error=1 print_stacktrace=1" \
    "$folder/bin/engine_soak" --minutes "$minutes" --seed "$seed" || failed+=("$preset")
done
[ ${#failed[@]} -eq 0 ] || { echo "engine: failed under ${failed[*]}" >&2; exit 1; }
