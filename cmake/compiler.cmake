# What every target is compiled with. The baseline is x86-64-v2 (any machine since about 2009) so that one binary runs anywhere; wider
# instruction sets are reached only by run-time dispatch (see rooms.cmake for the files that carry their own flags).
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(quern_flags INTERFACE)
target_compile_options(quern_flags INTERFACE -Wall -Wextra -Werror -fno-strict-aliasing
  -ffp-contract=off)  # a*b+c is rounded the same everywhere; kernels ask for FMA by name
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Clang tunes for the first processors of that level, which load 32 bytes in halves, and does so in the wider loops too.
  target_compile_options(quern_flags INTERFACE -march=x86-64-v2 -mtune=generic)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(quern_flags INTERFACE -Wno-psabi
    -Wno-maybe-uninitialized -Wno-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)  # false alarms of GCC 12 in libstdc++ and intrinsics
endif()
if(QUERN_SANITIZE)
  target_compile_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
endif()
find_program(LLD NAMES ld.lld-19 ld.lld)
if(LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(quern_flags INTERFACE -fuse-ld=lld)
endif()
find_package(Threads REQUIRED)
target_link_libraries(quern_flags INTERFACE Threads::Threads)
