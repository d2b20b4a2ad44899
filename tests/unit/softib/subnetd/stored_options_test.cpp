#include "softib/subnetd/stored_options.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "softib/control/protocol.hpp"
#include "temporary_folder.hpp"
#include "two_level_tree.hpp"

namespace softib::subnetd {
namespace {

subnet::SubnetConfig config() {
  subnet::SubnetConfig config;
  config.partitions =
      subnet::make_partitions({"0x12=full:a,b,mtu=2048,rate=40", "0x12=limited:c", "0x13=limited"})
          .value();
  config.partitions[1].set("d", subnet::Membership::none);
  config.partitions[2].broadcast_group = false;
  config.mtu = 5;
  config.lmc = 3;
  config.grh_required = true;
  config.seed = ~std::uint64_t{0};
  config.port_mtus = {{"e", 3}, {"f", 1}, {"f", 2, 2}};
  return config;
}

void expect_equal(const subnet::SubnetConfig& found, const subnet::SubnetConfig& wanted) {
  EXPECT_EQ(found.management, wanted.management);
  EXPECT_EQ(found.partitions, wanted.partitions);
  EXPECT_EQ(found.mtu, wanted.mtu);
  EXPECT_EQ(found.lmc, wanted.lmc);
  EXPECT_EQ(found.grh_required, wanted.grh_required);
  EXPECT_EQ(found.seed, wanted.seed);
  EXPECT_EQ(found.port_mtus, wanted.port_mtus);
  EXPECT_EQ(found.topology, wanted.topology);
}

TEST(StoredOptions, AreReadAsTheyWereWritten) {
  expect_equal(parse_options(emit_options(config())).value(), config());
  expect_equal(parse_options(emit_options({})).value(), {});
  subnet::SubnetConfig external;
  external.management = subnet::Management::external_sm;
  expect_equal(parse_options(emit_options(external)).value(), external);
  subnet::SubnetConfig tree;
  tree.topology = test::two_level_tree();
  tree.topology->hcas[1].description = "a host with blanks";
  tree.topology->hcas[1].guid = Guid(0x1234);
  tree.topology->hcas[1].port_guids[0] = Guid(0xffff'ffff'ffff'fff1);
  expect_equal(parse_options(emit_options(tree)).value(), tree);
}

TEST(StoredOptions, CannotBeWrittenWithoutTheirFolder) {
  const test::TemporaryFolder root;
  const fabric::SubnetFolder folder{root / "red"};
  EXPECT_EQ(write_options(folder, config()).error().message,
            "cannot store the options in " + folder.options() + ": No such file or directory");
}

TEST(StoredOptions, OfAnInvalidTopologyAreRefused) {
  subnet::SubnetConfig tree;
  tree.topology = test::two_level_tree();
  tree.topology->cables[0].b.index = 4;
  EXPECT_FALSE(parse_options(emit_options(tree))) << "there is no such HCA";
}

/// Replaces the first `from` in the text of config().
std::string changed(const std::string& from, const std::string& to) {
  std::string text = emit_options(config());
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(StoredOptions, ThatAreInvalidAreRefused) {
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"version\":5", "\"version\":1"},
           {"\"version\":5", "\"version\":\"2\""},
           {"\"version\":5", "\"verse\":2"},
           {"\"sm\":\"own\"", "\"sm\":\"me\""},
           {"\"mtu\":4096", "\"mtu\":1024"},
           {"\"mtu\":4096", "\"mtu\":2049"},
           {"\"mtu\":4096", "\"mtu\":-1"},
           {"\"lmc\":3", "\"lmc\":8"},
           {"\"lmc\":3", "\"lmc\":300"},
           {"\"lmc\":3,", ""},
           {"\"lmc\":3", "\"lmc\":3,\"new\":1"},
           {"\"seed\":18446744073709551615", "\"seed\":1e30"},
           {"0x8012", "0x8013"},
           {"0x8012", "0x0012"},
           {"0x8012", "0x8000"},
           {"0x8012", "18"},
           {"0xffff", "0x8014"},
           {"\"a\"", "\"b\""},
           {"\"a\"", "\"a b\""},
           {"\"membership\":\"full\"", "\"membership\":\"half\""},
           {"\"others\":\"limited\"", "\"others\":1"},
           {"\"rate\":7", "\"rate\":1"},
           {"\"broadcast_group\":true", "\"broadcast_group\":1"},
           {"\"hca\":\"e\",\"port\":1,\"mtu\":1024", "\"hca\":\"e\",\"port\":1,\"mtu\":1025"},
           {"\"hca\":\"e\",\"port\":1,\"mtu\":1024", "\"hca\":\"f\",\"port\":1,\"mtu\":1024"},
           {"\"hca\":\"e\",\"port\":1,\"mtu\":1024", "\"hca\":\"-\",\"port\":1,\"mtu\":1024"},
           {"\"hca\":\"e\",\"port\":1,\"mtu\":1024", "\"hca\":\"e\",\"port\":0,\"mtu\":1024"},
           {"\"hca\":\"e\",\"port\":1,\"mtu\":1024", "\"hca\":\"e\",\"port\":3,\"mtu\":1024"},
           {"\"port_mtus\":", "\"mtus\":"},
       }) {
    const auto parsed = parse_options(changed(from, to));
    EXPECT_FALSE(parsed) << from << " -> " << to;
  }
  for (const char* text : {"", "{", "[]", "7", "null", "{}", R"({"version":5})"}) {
    EXPECT_FALSE(parse_options(text)) << text;
  }
  EXPECT_FALSE(parse_options(std::string(100'000, '[')));
}

TEST(StoredOptions, OfAnotherVersionAreCalledSo) {
  for (const char* version : {"\"version\":1", "\"version\":\"2\"", "\"verse\":2"}) {
    const auto parsed = parse_options(changed("\"version\":5", version));
    ASSERT_FALSE(parsed) << version;
    EXPECT_THAT(parsed.error().message, testing::HasSubstr("they are of another version of softib"))
        << version;
  }
}

TEST(StoredOptions, HaveALimitedNumberOfPartitionsAndMembers) {
  subnet::SubnetConfig many;
  for (std::size_t i = 1; i < subnet::kMaxPartitions; ++i) {
    many.partitions.emplace_back().pkey = PKey(static_cast<std::uint16_t>(0x8000 + i));
  }
  ASSERT_TRUE(parse_options(emit_options(many)));
  many.partitions.emplace_back().pkey = PKey(0x9000);
  EXPECT_FALSE(parse_options(emit_options(many)));
  subnet::SubnetConfig members;
  for (std::size_t i = 0; i < subnet::kMaxNamedMembers; ++i) {
    members.partitions[0].members.push_back({std::to_string(i), subnet::Membership::full});
  }
  ASSERT_TRUE(parse_options(emit_options(members)));
  members.partitions[0].members.push_back({"one-more", subnet::Membership::full});
  EXPECT_FALSE(parse_options(emit_options(members)));
}

TEST(StoredOptions, HaveALimitedNumberOfPorts) {
  subnet::SubnetConfig config;
  for (std::size_t i = 0; i < kMaxNodes; ++i) config.port_mtus.push_back({std::to_string(i), 3, 1});
  ASSERT_TRUE(parse_options(emit_options(config)));
  config.port_mtus.push_back({"one-more", 3, 1});
  EXPECT_FALSE(parse_options(emit_options(config)));
}

TEST(StoredOptions, MustNotHaveAGroupThatNoPortCanJoin) {
  auto impossible = config();
  impossible.mtu = 4;
  impossible.partitions[1].mtu = 5;
  EXPECT_FALSE(parse_options(emit_options(impossible)));
}

class StoredOptionsFile : public ::testing::Test {
 protected:
  StoredOptionsFile() { std::filesystem::create_directory(folder_.path()); }
  test::TemporaryFolder root_;
  fabric::SubnetFolder folder_{root_ / "lab"};
};

TEST_F(StoredOptionsFile, IsReplacedAsAWhole) {
  EXPECT_EQ(read_options(folder_).value(), std::nullopt);
  ASSERT_TRUE(write_options(folder_, {}));
  const auto before = std::filesystem::hard_link_count(folder_.options());
  EXPECT_EQ(before, 1U);
  // What a killed process has left does not matter.
  std::ofstream(folder_.options() + ".new") << std::string(100'000, 'x');
  ASSERT_TRUE(write_options(folder_, config()));
  expect_equal(read_options(folder_).value().value(), config());
  EXPECT_FALSE(std::filesystem::exists(folder_.options() + ".new"));
}

TEST_F(StoredOptionsFile, LargestConfigurationFits) {
  subnet::SubnetConfig largest;
  for (std::size_t i = 1; i < subnet::kMaxPartitions; ++i) {
    auto& partition = largest.partitions.emplace_back();
    partition.pkey = PKey(static_cast<std::uint16_t>(0x8000 + i));
    for (std::size_t j = 0; j < subnet::kMaxNamedMembers; ++j) {
      auto name = std::to_string(j);
      name.insert(0, kMaxNodeName - name.size(), 'x');
      partition.members.push_back({name, subnet::Membership::limited});
    }
  }
  ASSERT_TRUE(write_options(folder_, largest));
  expect_equal(read_options(folder_).value().value(), largest);
}

TEST_F(StoredOptionsFile, ThatIsUnusableIsAnErrorWithAdvice) {
  std::ofstream(folder_.options()) << "garbage";
  const auto garbage = read_options(folder_);
  ASSERT_FALSE(garbage);
  EXPECT_THAT(garbage.error().message, testing::HasSubstr(folder_.options()));
  EXPECT_THAT(garbage.error().message, testing::HasSubstr("softib stop"));
  std::filesystem::resize_file(folder_.options(), kMaxStoredOptions + 1);
  EXPECT_THAT(read_options(folder_).error().message, testing::HasSubstr("the file is too long"));
  std::filesystem::remove(folder_.options());
  std::filesystem::create_symlink("/proc/self/comm", folder_.options());
  EXPECT_FALSE(read_options(folder_)) << "a link is not followed";
}

}  // namespace
}  // namespace softib::subnetd
