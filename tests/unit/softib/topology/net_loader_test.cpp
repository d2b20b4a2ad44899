#include "softib/topology/net_loader.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ipoib/file_descriptor.hpp"

namespace softib::topology {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class NetLoader : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "topology-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(NetLoader, IncludesAreRelativeToTheFileThatHasThem) {
  write("pods/hosts/one.net", "Ca 1 \"h\"\n[1] \"s\"[1]\n");
  write("pods/a.net",
        "include \"hosts/one.net\"\ninclude \"" + write("absolute.net", "Ca 1 \"g\"\n") + "\"\n");
  const auto file =
      read_net(write("main.net", "include \"pods/a.net\"\nSwitch 2 \"s\"\n[1] \"h\"[1]\n"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->topology.hcas.size(), 2U);
  EXPECT_EQ(file->topology.cables.size(), 1U);
}

TEST_F(NetLoader, FileThatIncludesItselfIsAnError) {
  const auto file = read_net(write("self.net", "include \"self.net\"\n"));
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message,
              EndsWith("self.net:1:9: files include each other more than 9 deep"));
}

TEST_F(NetLoader, OnlyRegularFilesAreIncluded) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* each : {"pipe", "/dev/null"}) {
    const auto file = read_net(write("main.net", std::string("include \"") + each + "\"\n"));
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().message, EndsWith("is not a regular file")) << each;
  }
}

TEST_F(NetLoader, TheFirstFileMayBeAPipe) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "Switch 2 \"s\"\n"; });
  const auto file = read_net(pipe);
  // Lets the writer end if nobody has read.
  const ipoib::FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  writer.join();
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->topology.switches.size(), 1U);
}

TEST_F(NetLoader, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(read_net(folder_ / "missing").error().message,
              EndsWith("missing: No such file or directory"));
  EXPECT_THAT(read_net(folder_).error().message, EndsWith(": Is a directory"));
  const auto large = write("large", "");
  std::filesystem::resize_file(large, kMaxNetBytes + 1);
  EXPECT_EQ(read_net(large).error().code, EFBIG);
  const auto included = read_net(write("main.net", "\ninclude \"missing\"\n"));
  EXPECT_EQ(included.error().code, ENOENT);
  EXPECT_THAT(included.error().message, HasSubstr("main.net:2:9: "));
}

TEST_F(NetLoader, ShapesAndFiles) {
  EXPECT_EQ(load_topology("star:3")->topology.hcas.size(), 3U);
  EXPECT_EQ(load_topology(write("star:4", "Switch 1 \"s\"\n"))->topology.switches.size(), 1U);
  EXPECT_THAT(load_topology("fat:4").error().message, HasSubstr("no shape, nor a file"));
  EXPECT_THAT(load_topology("star").error().message, HasSubstr("star:..."))
      << "a shape without its numbers";
  EXPECT_THAT(load_topology("/nosuch/file").error().message, HasSubstr("No such file"));
}

}  // namespace
}  // namespace softib::topology
