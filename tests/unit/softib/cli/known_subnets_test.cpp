#include "softib/cli/known_subnets.hpp"

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>

#include "running_subnet.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "temporary_folder.hpp"

namespace softib::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class KnownSubnets : public testing::Test {
 protected:
  /// The names of the subnets in the directory.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& subnet : subnets_in(directory_.path())) out.push_back(subnet.folder.name());
    return out;
  }
  test::TemporaryFolder directory_;
  fabric::SubnetFolder folder_{directory_ / "red"};
};

TEST_F(KnownSubnets, DescribeARunningSubnet) {
  EXPECT_FALSE(find_subnet(folder_));
  subnetd::RunningSubnet subnet(folder_);
  ASSERT_TRUE(endpoint::find_or_add_node(folder_, "a"));
  const auto found = find_subnet(folder_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder.name(), "red");
  EXPECT_EQ(found->pid, ::getpid());
  EXPECT_EQ(found->hcas, 1U) << "the subnet manager's is not counted";
  EXPECT_THAT(found->programs, IsEmpty()) << "the subnet process is none";
  EXPECT_FALSE(found->uptime) << "of a program that is not softib";
}

TEST_F(KnownSubnets, AreInFoldersWithValidNames) {
  subnetd::RunningSubnet subnet(folder_);
  EXPECT_THAT(names(), ElementsAre("red"));
  const subnetd::RunningSubnet other(fabric::SubnetFolder(directory_ / "not a name"));
  std::filesystem::create_directory(directory_ / "empty");
  EXPECT_THAT(names(), ElementsAre("red"));
}

/// Any process may call itself softib and have a file named lock open.
TEST_F(KnownSubnets, OfOtherProcessesHavePrintableNames) {
  const auto folders = [this] {
    std::vector<std::string> out;
    for (const auto& subnet : subnets_of_processes()) {
      const std::string& path = subnet.folder.path();
      if (path.starts_with(directory_.path())) out.push_back(path.substr(directory_.path().size()));
    }
    return out;
  };
  std::string before(16, '\0');
  ASSERT_EQ(::prctl(PR_GET_NAME, before.data()), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, "softib"), 0);
  std::filesystem::create_directories(directory_ / "a\nb");
  const subnetd::RunningSubnet good(folder_);
  const subnetd::RunningSubnet forged(fabric::SubnetFolder(directory_ / "x\x1b[2J"));
  const subnetd::RunningSubnet below(fabric::SubnetFolder(directory_ / "a\nb/good"));
  EXPECT_THAT(folders(), ElementsAre("/red"));
  ::prctl(PR_SET_NAME, before.c_str());
}

TEST_F(KnownSubnets, WithoutProcessHaveNoPid) {
  {
    const subnetd::RunningSubnet subnet(folder_);
    ASSERT_TRUE(endpoint::find_or_add_node(folder_, "a"));
  }
  const auto found = find_subnet(folder_);
  if (found) {
    EXPECT_EQ(found->pid, 0);
    EXPECT_FALSE(found->uptime);
  }
}

}  // namespace
}  // namespace softib::cli
