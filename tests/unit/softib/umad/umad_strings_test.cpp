// Compares the strings of our libibumad with those of the real one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>

namespace {

class RealLibrary : public testing::Test {
 protected:
  // In its own linker namespace, its functions call each other, not ours.
  void* library_ = ::dlmopen(LM_ID_NEWLM, "libibumad.so.3", RTLD_NOW | RTLD_LOCAL);

  void SetUp() override {
    if (library_ == nullptr) GTEST_SKIP() << ::dlerror();
  }
  ~RealLibrary() override {
    if (library_ != nullptr) ::dlclose(library_);
  }
  template <class Function>
  Function* real(const char* name) {
    void* const found = ::dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }
};

TEST_F(RealLibrary, HasTheSameClassAndMethodNames) {
  auto* const class_str = real<decltype(umad_class_str)>("umad_class_str");
  auto* const method_str = real<decltype(umad_method_str)>("umad_method_str");
  for (int management_class = 0; management_class < 256; ++management_class) {
    const auto value = static_cast<std::uint8_t>(management_class);
    EXPECT_STREQ(umad_class_str(value), class_str(value)) << management_class;
    for (int code = 0; code < 256; ++code) {
      const auto method = static_cast<std::uint8_t>(code);
      const std::string theirs = method_str(value, method);
      // Its string for an unknown method lacks a bracket.
      EXPECT_EQ(umad_method_str(value, method), theirs == "<unknown" ? "<unknown>" : theirs);
    }
  }
}

TEST_F(RealLibrary, HasTheSameAttributeNames) {
  auto* const attribute_str = real<decltype(umad_attribute_str)>("umad_attribute_str");
  for (const int code : {0x01, 0x03, 0x04, 0x07, 0x10, 0x32, 0x81}) {
    const auto management_class = static_cast<std::uint8_t>(code);
    for (int id = 0; id < 0x10000; ++id) {
      const auto attribute = htons(static_cast<std::uint16_t>(id));
      ASSERT_STREQ(umad_attribute_str(management_class, attribute),
                   attribute_str(management_class, attribute))
          << code << ' ' << id;
    }
  }
}

TEST_F(RealLibrary, HasTheSameStatusNames) {
  auto* const common = real<decltype(umad_common_mad_status_str)>("umad_common_mad_status_str");
  auto* const sa = real<decltype(umad_sa_mad_status_str)>("umad_sa_mad_status_str");
  for (int code = 0; code < 0x10000; ++code) {
    const auto status = htons(static_cast<std::uint16_t>(code));
    ASSERT_STREQ(umad_common_mad_status_str(status), common(status)) << code;
    ASSERT_STREQ(umad_sa_mad_status_str(status), sa(status)) << code;
  }
}

}  // namespace
