// The tests of a build for another processor run under an emulator of programs (qemu-user). It
// passes system calls on to the kernel, and lacks some of them.
#pragma once

#include <gtest/gtest.h>

/// Skips a test of what the emulator does not do: `lacks` says what, after "the emulator".
#ifdef IPOIB_EMULATED
#define SKIP_UNDER_EMULATOR(lacks) GTEST_SKIP() << "the emulator " lacks
#else
#define SKIP_UNDER_EMULATOR(lacks) static_cast<void>(0)
#endif
