#include "softib/cli/run_environment.hpp"

#include <gtest/gtest.h>

#include "softib/core/fabric_types.hpp"
#include "softib/core/name.hpp"

namespace softib::cli {
namespace {

TEST(RunEnvironment, KeepsThePreviousPreloadsAfterTheLibrary) {
  const std::string alone = preload_value("/lib/libsoftib.so", "");
  EXPECT_TRUE(alone.ends_with("/lib/libsoftib.so")) << alone;
  EXPECT_EQ(preload_value("/lib/libsoftib.so", "a.so:b.so"), alone + ":a.so:b.so");
}

TEST(RunEnvironment, PutsTheSanitizerRuntimeFirst) {
  const std::string value = preload_value("/lib/libsoftib.so", "");
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_NE(value.find("libasan"), std::string::npos) << value;
#elif defined(__SANITIZE_THREAD__)
  EXPECT_NE(value.find("libtsan"), std::string::npos) << value;
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
