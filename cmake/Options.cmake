# Compiler settings, and the functions that declare libraries and tests.
option(IPOIB_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(IPOIB_INSTALL "Build all programs by default, and install them" ${PROJECT_IS_TOP_LEVEL})
option(IPOIB_BESIDE_SANITIZERS "Build no unit and simulation tests, since they also run with sanitizers" OFF)
option(IPOIB_FUZZ "Build the fuzz targets; needs clang" OFF)
set(IPOIB_SANITIZE "" CACHE STRING "Sanitizers for everything, as for -fsanitize=: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

option(IPOIB_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${IPOIB_WERROR}>:-Werror>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast> -fno-strict-aliasing)
# What clang finds and g++ does not: signs; names of one source in another one that is merged with it; and
# what the macros of libibverbs expand to.
add_compile_options("$<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion;-Wno-shadow>"
                    "$<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-enum-enum-conversion>"
                    "$<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression>")
# Makes builds independent of the folder; debuggers look up sources relative to the root.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# The shared library with the runtime of a sanitizer.
function(ipoib_sanitizer_runtime sanitizer result)
  string(SUBSTRING ${sanitizer} 0 1 letter)
  set(name lib${letter}san.so)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(name libclang_rt.${letter}san-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
                  OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${path}" path)
  set(${result} "${path}" PARENT_SCOPE)
endfunction()

if(IPOIB_SANITIZE)
  add_compile_options(-fsanitize=${IPOIB_SANITIZE} -fno-omit-frame-pointer
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  add_link_options(-fsanitize=${IPOIB_SANITIZE})
  foreach(sanitizer address thread)
    if(IPOIB_SANITIZE MATCHES ${sanitizer})
      string(TOUPPER IPOIB_${sanitizer}_SANITIZER defined)
      add_compile_definitions(${defined})
      ipoib_sanitizer_runtime(${sanitizer} IPOIB_SANITIZER_RUNTIME)
    endif()
  endforeach()
  # A library can be preloaded into other programs if its runtime can be, too.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT IPOIB_FUZZ)
    get_filename_component(folder ${IPOIB_SANITIZER_RUNTIME} DIRECTORY)
    add_link_options(-shared-libsan -Wl,-rpath,${folder})
  endif()
endif()
if(IPOIB_SANITIZE MATCHES undefined)
  # A test fails if behaviour is undefined. Not for `vptr`, which needs a descriptor to look at memory
  # and takes objects for invalid in the tests that run out of them.
  add_compile_options(-fno-sanitize-recover=undefined -fsanitize-recover=vptr)
  if(IPOIB_FUZZ) # a fifth of the time to compile; the debug build has these checks
    set(IPOIB_FUZZ_UNCHECKED alignment,null,object-size,vptr CACHE STRING "Checks to leave out")
    add_compile_options(-fno-sanitize=${IPOIB_FUZZ_UNCHECKED})
  endif()
endif()

set(CMAKE_UNITY_BUILD_BATCH_SIZE 20)
# A merged source needs so much memory that g++ would spend a tenth of its time on collecting garbage.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()

# Hardening: see docs/security.md, "Compiled programs". Not for Debug builds, where fortified
# functions need an optimizer, nor with sanitizers, which check more.
option(IPOIB_HARDENING "Compile and link with hardening flags" ON)
if(IPOIB_HARDENING AND NOT IPOIB_SANITIZE)
  set(hardened $<NOT:$<CONFIG:Debug>>)
  add_compile_options("$<${hardened}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3;-fstack-protector-strong>"
                      "$<${hardened}:-fstack-clash-protection>")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options("$<${hardened}:-fcf-protection=full>")
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()
# An index beyond the end of a container ends the process. In all sources or in none: of an inline
# function that several of them instantiate, the linker keeps the code of any one.
if(IPOIB_HARDENING)
  add_compile_definitions($<$<NOT:$<CONFIG:Debug>>:_GLIBCXX_ASSERTIONS>)
endif()
# Position-independent programs, as CMAKE_POSITION_INDEPENDENT_CODE alone compiles but does not link.
include(CheckPIESupported)
check_pie_supported()

# Like find_program(), but also looks again for a program that was removed after it was found.
function(ipoib_find_program variable name)
  if(${variable} AND NOT EXISTS ${${variable}})
    unset(${variable} CACHE)
  endif()
  find_program(${variable} ${name})
endfunction()

# A compiler cache and a faster linker, if they are installed. Both are optional.
option(IPOIB_CCACHE "Use ccache if it is installed" ON)
ipoib_find_program(IPOIB_CCACHE_PROGRAM ccache)
if(IPOIB_CCACHE AND IPOIB_CCACHE_PROGRAM AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  message(NOTICE "using ${IPOIB_CCACHE_PROGRAM} (not with -D IPOIB_CCACHE=OFF)")
  set(CMAKE_C_COMPILER_LAUNCHER ${IPOIB_CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${IPOIB_CCACHE_PROGRAM})
endif()
option(IPOIB_MOLD "Link with mold if it is installed" ON)
ipoib_find_program(IPOIB_MOLD_PROGRAM mold)
if(IPOIB_MOLD AND IPOIB_MOLD_PROGRAM)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold IPOIB_MOLD_WORKS)
  if(IPOIB_MOLD_WORKS)
    message(NOTICE "using ${IPOIB_MOLD_PROGRAM} (not with -D IPOIB_MOLD=OFF)")
    add_link_options(-fuse-ld=mold)
  endif()
endif()

# Precompiled headers of the standard library, and for tests of GoogleTest: a sixth of the time that clang takes for a
# test without optimisation, and half of it for a fuzz target. Not with a compiler cache, which would have to be told
# what it may ignore.
option(IPOIB_PRECOMPILE "Precompile headers unless a compiler cache is used; for clang" OFF)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(IPOIB_PRECOMPILE OFF)
endif()

# ipoib_precompile(NAME HEADERS [LIBRARY...]): precompiles cmake/HEADERS.hpp, which includes headers of these
# libraries: NAME is for programs (-fPIE), NAME_shared for libraries (-fPIC).
function(ipoib_precompile name headers)
  if(NOT IPOIB_PRECOMPILE)
    return()
  endif()
  foreach(target IN ITEMS ${name} ${name}_shared)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${headers}.hpp)
    target_link_libraries(${target} PRIVATE ${ARGN})
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endforeach()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
endfunction()

# Lets a target use what ipoib_precompile(NAME) has precompiled, unless it has a source in C.
function(ipoib_use_precompiled target name)
  get_target_property(sources ${target} SOURCES)
  if(NOT TARGET ${name} OR sources MATCHES "\\.c(;|$)")
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL EXECUTABLE)
    set(name ${name}_shared)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

# A library of src/. LINKS is its row of the table in docs/architecture.md.
function(ipoib_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  ipoib_use_precompiled(${name} precompiled)
endfunction()

# A GoogleTest program; ctest lists each case as LABEL/Suite.Name. With sanitizers a process starts
# slowly, so the unit tests of a program run in one: LABEL/name. PROGRAMS is for tests that start programs; these
# run without sanitizers only.
function(ipoib_test name)
  cmake_parse_arguments(ARG "PROGRAMS" "LABEL" "SOURCES;LINKS" ${ARGN})
  if(IPOIB_SANITIZE AND ARG_PROGRAMS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} ipoib_test_support GTest::gmock GTest::gtest_main)
  ipoib_use_precompiled(${name} precompiled_for_tests)
  if(IPOIB_BESIDE_SANITIZERS AND NOT ARG_PROGRAMS AND ARG_LABEL MATCHES "^(unit|sim)$")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  if(IPOIB_SANITIZE AND ARG_LABEL STREQUAL unit)
    # ctest reads this: a build of some targets only has the tests of those.
    set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_test.cmake)
    file(GENERATE OUTPUT ${list} CONTENT "if(EXISTS [==[$<TARGET_FILE:${name}>]==])
  add_test(unit/${name} [==[$<TARGET_FILE:${name}>]==])
  set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT 900)
endif()
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${list})
    return()
  endif()
  gtest_discover_tests(${name} TEST_PREFIX ${ARG_LABEL}/ NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 300)
endfunction()

# Sets `out` to the cases of a Python unittest program: Class.test_name.
function(ipoib_python_cases out script)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  file(STRINGS ${script} lines REGEX "^class |^    def test_")
  set(cases)
  foreach(line ${lines})
    if(line MATCHES "^class ([A-Za-z0-9]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def (test_[a-z0-9_]+)")
      list(APPEND cases ${class}.${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${out} ${cases} PARENT_SCOPE)
endfunction()

# Adds a unit test for each function without parameters of a Python script, whose last argument is its name.
# Not with sanitizers: see ipoib_python_test().
function(ipoib_function_tests prefix script)
  if(IPOIB_SANITIZE)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  file(STRINGS ${script} lines REGEX "^def [a-z0-9_]+\\(\\):")
  foreach(line ${lines})
    string(REGEX REPLACE "^def ([a-z0-9_]+).*" "\\1" test ${line})
    add_test(NAME unit/${prefix}.${test} COMMAND Python3::Interpreter ${script} ${ARGN} ${test})
    set_tests_properties(unit/${prefix}.${test} PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 300)
  endforeach()
endfunction()

# Tests that keep a processor busy. The others wait most of the time, so scripts/test runs three for
# each processor and one more.
function(ipoib_busy_tests)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 3)
endfunction()

# A Python unittest program; ctest lists each case as LABEL/Class.test_name. It finds the programs in
# the folder IPOIB_BIN, and returns 77 with a reason if it cannot run. BUSY is for tests that keep a
# processor busy. Those with a higher COST start first; by default it is 10, more than that of the many
# short tests. With sanitizers only the cases SANITIZED run, since whole processes take several times as
# long with them, and the unit and simulation tests look for wrong use of memory and of threads in the same
# code. SANITIZED are the cases in which threads of a process meet in a way of their own, or memory changes
# its owner: a start, an end, a takeover, a bulk transfer.
function(ipoib_python_test script)
  cmake_parse_arguments(ARG "BUSY" "LABEL;TIMEOUT;COST" "ENVIRONMENT;SANITIZED" ${ARGN})
  if(NOT ARG_COST)
    set(ARG_COST 10)
  endif()
  ipoib_python_cases(cases ${script})
  foreach(case ${ARG_SANITIZED})
    if(NOT case IN_LIST cases)
      message(FATAL_ERROR "${script} has no test ${case}")
    endif()
  endforeach()
  if(IPOIB_SANITIZE)
    set(cases ${ARG_SANITIZED})
  endif()
  foreach(case ${cases})
    set(name ${ARG_LABEL}/${case})
    add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${case})
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
      COST ${ARG_COST}
      SKIP_RETURN_CODE 77 SKIP_REGULAR_EXPRESSION "skipped="
      ENVIRONMENT "IPOIB_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};${ARG_ENVIRONMENT}")
    if(ARG_BUSY)
      ipoib_busy_tests(${name})
    endif()
  endforeach()
endfunction()

# A Python unittest program whose tests run in a virtual machine (tests/vm/machine.py). Each class boots
# one machine, as a ctest fixture of its tests. Not with sanitizers, which are too slow in an emulated
# machine.
function(ipoib_guest_test script)
  if(IPOIB_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL" "" ${ARGN})
  ipoib_python_cases(cases ${script})
  foreach(case ${cases})
    string(REGEX REPLACE "\\..*" "" class ${case})
    if(NOT TEST ${ARG_LABEL}/${class}.boot)
      ipoib_guest_test_part(${class}.boot ${ARG_LABEL} ${script} boot ${class} FIXTURES_SETUP)
      ipoib_busy_tests(${ARG_LABEL}/${class}.boot)
      set_tests_properties(${ARG_LABEL}/${class}.boot PROPERTIES COST 1000) # the longest of all
    endif()
    ipoib_guest_test_part(${case} ${ARG_LABEL} ${script} result ${case} FIXTURES_REQUIRED)
  endforeach()
endfunction()

function(ipoib_guest_test_part name label script role argument fixture)
  string(REGEX REPLACE "\\..*" "" class ${name})
  add_test(NAME ${label}/${name}
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${role} ${argument})
  set_tests_properties(${label}/${name} PROPERTIES LABELS ${label} TIMEOUT 1300
    SKIP_RETURN_CODE 77 ENVIRONMENT IPOIB_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    ${fixture} ${label}_${class})
endfunction()

# A libFuzzer target: tests/fuzz/<name>.cpp, built by clang with IPOIB_FUZZ, run by ctest for
# IPOIB_FUZZ_SECONDS. It starts from corpus/<name>, which has a few inputs that reach most of the
# code, and those that once failed, and from random bytes. Without IPOIB_FUZZ, but with the address
# sanitizer, it is a unit test that has only these inputs. DICTIONARY is a libFuzzer dictionary,
# MAX_LEN the maximum size of an input in bytes (default 4096).
set(IPOIB_FUZZ_SECONDS 30 CACHE STRING "How long ctest runs each fuzz target")
add_custom_target(fuzzers)
function(ipoib_fuzz name)
  cmake_parse_arguments(ARG "" "DICTIONARY;MAX_LEN" "SOURCES;LINKS" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY IPOIB_FUZZ_TARGETS ${name})
  if(NOT IPOIB_FUZZ AND NOT IPOIB_SANITIZE MATCHES address)
    return()
  endif()
  if(NOT ARG_MAX_LEN)
    set(ARG_MAX_LEN 4096)
  endif()
  add_executable(fuzz_${name} ${ARG_SOURCES})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(fuzz_${name} PRIVATE fuzz_support ${ARG_LINKS})
  ipoib_use_precompiled(fuzz_${name} precompiled)
  add_dependencies(fuzzers fuzz_${name})
  set(corpora ${CMAKE_CURRENT_BINARY_DIR}/corpus/${name})
  foreach(seed RANGE 1 4)
    string(RANDOM LENGTH 1000 RANDOM_SEED ${seed} noise)
    file(WRITE ${corpora}/noise${seed} ${noise})
  endforeach()
  list(APPEND corpora ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  if(ARG_DICTIONARY)
    set(dictionary -dict=${CMAKE_CURRENT_SOURCE_DIR}/${ARG_DICTIONARY})
  endif()
  if(NOT IPOIB_FUZZ)
    target_sources(fuzz_${name} PRIVATE stored_inputs.cpp)
    add_test(NAME unit/fuzz_${name} COMMAND fuzz_${name} ${corpora})
    set_tests_properties(unit/fuzz_${name} PROPERTIES LABELS unit TIMEOUT 300)
    return()
  endif()
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer
    -Wl,--wrap=__sanitizer_cov_trace_pc_guard,--wrap=__sanitizer_cov_trace_pc_guard_init) # cost.cpp
  add_test(NAME fuzz/${name}
           COMMAND fuzz_${name} -max_total_time=${IPOIB_FUZZ_SECONDS} -max_len=${ARG_MAX_LEN} -len_control=0
                   -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 ${dictionary} ${corpora})
  math(EXPR timeout "${IPOIB_FUZZ_SECONDS} + 270")
  set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
  ipoib_busy_tests(fuzz/${name})
endfunction()

# Each fuzz target has a corpus, and each corpus a target.
function(ipoib_check_fuzz_corpora)
  get_property(targets DIRECTORY PROPERTY IPOIB_FUZZ_TARGETS)
  file(GLOB corpora RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/*)
  foreach(name ${targets})
    file(GLOB inputs ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}/*)
    if(NOT inputs)
      message(FATAL_ERROR "the fuzz target ${name} has no inputs in tests/fuzz/corpus/${name}")
    endif()
  endforeach()
  list(REMOVE_ITEM corpora ${targets})
  if(corpora)
    message(FATAL_ERROR "tests/fuzz/corpus/ has inputs for no fuzz target: ${corpora}")
  endif()
endfunction()
