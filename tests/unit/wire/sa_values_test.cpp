#include "wire/sa_values.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <map>
#include <set>
#include <string_view>

#include "wire/sa_failure.hpp"
#include "wire/sa_status.hpp"

namespace ipoib::wire {
namespace {

TEST(SaFailureText, SaysWhatToLookAt) {
  using Kind = SaFailure::Kind;
  const auto text = [](Kind kind) { return SaFailure(kind).text(); };
  EXPECT_EQ(text(Kind::timeout),
            "no response from the subnet administrator: is a subnet manager running?");
  EXPECT_EQ(text(Kind::no_sm),
            "the port knows no subnet manager: start one on this subnet, such as opensm");
  EXPECT_EQ(text(Kind::overloaded), "too many requests to the subnet administrator are waiting");
  EXPECT_EQ(text(Kind::malformed_response),
            "the subnet administrator's response does not contain the requested record");
}

TEST(RateCode, IsThatOfVerbs) {
  for (int code = 2; code <= 24; ++code) {
    EXPECT_EQ(rate_mbps(static_cast<std::uint8_t>(code)),
              static_cast<std::uint32_t>(ibv_rate_to_mbps(static_cast<ibv_rate>(code))))
        << code;
  }
  EXPECT_EQ(rate_mbps(0), 0U);
  EXPECT_EQ(rate_mbps(1), 0U);
  EXPECT_EQ(rate_mbps(63), 0U);
}

TEST(RateCode, IsThatOfTheNearestRate) {
  for (const auto& [gbits, mbps] : std::map<std::string_view, std::uint32_t>{{"2.5", 2'500},
                                                                             {"10", 10'000},
                                                                             {"14", 14'062},
                                                                             {"25", 25'781},
                                                                             {"50", 53'125},
                                                                             {"56", 56'250},
                                                                             {"100", 103'125},
                                                                             {"200", 206'250},
                                                                             {"400", 425'000},
                                                                             {"800", 850'000},
                                                                             {"1200", 1'275'000}}) {
    EXPECT_EQ(rate_mbps(rate_code(gbits)), mbps) << gbits;
  }
  for (const char* const text : {"", "0", "-10", "11", "401", "410", "125", "2", "1e1", "inf",
                                 "nan", "10 ", "10000000000"}) {
    EXPECT_EQ(rate_code(text), 0) << text;
  }
}

TEST(RateCode, ListIsSorted) {
  EXPECT_TRUE(known_rates().starts_with("2.5, 5, 10, 14, 20, 26, 28, 30, 40, ")) << known_rates();
}

TEST(MtuCode, IsTheInverseOfMtuBytes) {
  EXPECT_EQ(mtu_bytes(1), 256U);
  EXPECT_EQ(mtu_bytes(4), 2048U);
  EXPECT_EQ(mtu_bytes(5), 4096U);
  EXPECT_EQ(mtu_bytes(0), 0U);
  EXPECT_EQ(mtu_bytes(6), 0U);
  for (std::uint8_t code = 1; code <= 5; ++code) EXPECT_EQ(mtu_code(mtu_bytes(code)), code);
  EXPECT_EQ(mtu_code(1500), 0);
}

TEST(Selector, ComparesAValueWithThatOfTheQuery) {
  for (const int order : {-1, 0, 1}) {
    EXPECT_EQ(satisfies(Selector::greater, order), order > 0);
    EXPECT_EQ(satisfies(Selector::less, order), order < 0);
    EXPECT_EQ(satisfies(Selector::exactly, order), order == 0);
    EXPECT_TRUE(satisfies(Selector::largest, order));
  }
}

TEST(SaStatus, HasANameAndACause) {
  std::set<std::string_view> names;
  std::set<std::string_view> causes;
  for (const int code :
       {0x0, 0x1, 0x2, 0x4, 0x8, 0xc, 0x1c, 0x100, 0x200, 0x300, 0x400, 0x500, 0x600, 0x700}) {
    names.insert(name(static_cast<SaStatus>(code)));
    causes.insert(likely_cause(static_cast<SaStatus>(code)));
  }
  EXPECT_EQ(names.size(), 14U);
  EXPECT_FALSE(names.contains("unknown status"));
  EXPECT_EQ(causes.size(), 11U) << "the four that say 'not supported' have one cause";
  EXPECT_EQ(name(SaStatus::request_invalid), "request invalid");
  EXPECT_EQ(name(SaStatus::no_records), "no records");
  EXPECT_EQ(name(static_cast<SaStatus>(0x7777)), "unknown status");
  EXPECT_FALSE(likely_cause(SaStatus::insufficient_components).empty());
  EXPECT_TRUE(likely_cause(SaStatus::ok).empty());
  EXPECT_TRUE(likely_cause(static_cast<SaStatus>(0x7777)).empty());
}

}  // namespace
}  // namespace ipoib::wire
