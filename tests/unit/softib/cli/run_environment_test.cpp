#include "softib/cli/run_environment.hpp"

#include <gtest/gtest.h>

#include "softib/core/fabric_types.hpp"
#include "softib/core/name.hpp"

namespace softib::cli {
namespace {

TEST(RunEnvironment, KeepsThePreviousPreloadsAfterTheLibrary) {
  const Preload alone = preload_of("/lib/libsoftib.so", "", "/before");
  EXPECT_TRUE(alone.libraries.ends_with("/lib/libsoftib.so")) << alone.libraries;
  EXPECT_EQ(preload_of("/lib/libsoftib.so", "a.so:b.so", "").libraries,
            alone.libraries + ":a.so:b.so");
  EXPECT_EQ(alone.folders, "/lib/abi:/before");
}

TEST(RunEnvironment, PreloadsFromAFolderWithABlankInItsName) {
  const Preload first = preload_of("/my lib/libsoftib.so", "a.so", "");
  EXPECT_TRUE(first.libraries.ends_with("libsoftib.so:a.so")) << first.libraries;
  EXPECT_EQ(first.libraries.find(' '), std::string::npos) << first.libraries;
  EXPECT_EQ(first.folders, "/my lib/abi:/my lib");
  EXPECT_EQ(preload_of("/my lib/libsoftib.so", "", "/a:/b").folders, "/my lib/abi:/my lib:/a:/b");
}

TEST(RunEnvironment, PutsTheSanitizerRuntimeFirst) {
  const std::string value = preload_of("/lib/libsoftib.so", "", "").libraries;
#if defined(IPOIB_ADDRESS_SANITIZER)
  EXPECT_LT(value.find("asan"), value.find("/lib/libsoftib.so")) << value;
#elif defined(IPOIB_THREAD_SANITIZER)
  EXPECT_LT(value.find("tsan"), value.find("/lib/libsoftib.so")) << value;
#else
  EXPECT_EQ(value, "/lib/libsoftib.so");
#endif
}

TEST(RunEnvironment, MakesAValidNameOfAnyText) {
  EXPECT_EQ(as_name("host1"), "host1");
  EXPECT_EQ(as_name("my host/1"), "my-host-1");
  EXPECT_EQ(as_name(""), "host");
  for (const char* text : {".hidden", "-x", "\xc3\xa4", "a b", "..", "/"}) {
    EXPECT_TRUE(is_valid_name(as_name(text))) << text << " -> " << as_name(text);
  }
  EXPECT_EQ(as_name(std::string(100, 'x')).size(), kMaxNodeName);
}

TEST(RunEnvironment, HasAValidDefaultName) {
  EXPECT_TRUE(is_valid_name(default_hca_name())) << default_hca_name();
}

}  // namespace
}  // namespace softib::cli
