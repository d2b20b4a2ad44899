// What most tests include; see ipoib_precompile() in Options.cmake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "standard_headers.hpp"
