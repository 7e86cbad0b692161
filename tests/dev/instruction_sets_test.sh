#!/usr/bin/env bash
# Objects compiled for one instruction set may define no weak symbol, which is what inline functions and template instances become: the
# linker keeps one copy of each in the program, and if that is theirs, other code crashes on machines without the instruction set.
set -euo pipefail
build=${1:?usage: instruction_sets_test.sh BUILD_DIR}
objects=0
broken=0
while IFS= read -r object; do
  objects=$((objects + 1))
  if weak=$(nm --demangle --defined-only "$object" | grep -E '^[0-9a-f]* [VWu] '); then
    echo "$object defines:"
    echo "$weak"
    broken=1
  fi
done < <(find "$build/CMakeFiles" -name '*.*.cc.o' -path '*/src/*')
echo "$objects objects"
exit $broken
