# Language, warnings, sanitizers and helpers shared by every folder.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(CAIRN_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
set(CAIRN_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# -O2: what gains from more (checksums, erasure code) asks for it itself.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_compile_options(-Wall -Wextra -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 sees overlapping and endless copies in std::string's operator+ and
  # append that are none.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow
                      -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety)
endif()
if(CAIRN_SANITIZE)
  add_compile_options(-fsanitize=${CAIRN_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CAIRN_SANITIZE})
endif()

# Headers that almost every source of server/, client/ and tests/ includes; a
# third of the build's time without this. (Each header still compiles alone: a
# test checks it.)
function(cairn_precompile target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <cstdint> <functional> <map> <memory> <optional> <span>
    <string> <string_view> <vector>
    <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    ${PROJECT_SOURCE_DIR}/format/base/status.h
    ${PROJECT_SOURCE_DIR}/format/cluster/cluster_map.h
    ${PROJECT_BINARY_DIR}/generated/format/wire/checkpoint.pb.h
    ${PROJECT_SOURCE_DIR}/io/env.h)
endfunction()

# cairn_library(name DEPS a b): every .cc below the current folder, but not
# below folders named in EXCLUDE.
function(cairn_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(folder ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()
