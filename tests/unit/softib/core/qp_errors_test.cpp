#include "softib/core/qp_errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib {
namespace {

using ipoib::Qpn;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(QpErrors, AreThoseSinceTheLastLook) {
  QpErrors now;
  EXPECT_THAT(now.since(now), IsEmpty());
  const auto before = now;
  now.add(Qpn(0x10001));
  now.add(Qpn());
  EXPECT_THAT(now.since(before), ElementsAre(Qpn(0x10001), Qpn()));
  const auto between = now;
  now.add(Qpn(0x10001));
  EXPECT_THAT(now.since(between), ElementsAre(Qpn(0x10001))) << "the same one again";
  EXPECT_NE(now, between);
}

TEST(QpErrors, KeepsTheLastFew) {
  QpErrors now;
  for (std::uint32_t qpn = 1; qpn <= 6; ++qpn) now.add(Qpn(qpn));
  EXPECT_THAT(now.since({}), ElementsAre(Qpn(3), Qpn(4), Qpn(5), Qpn(6)));
}

TEST(QpErrors, CountsBeyondSixteenBits) {
  QpErrors now;
  for (std::uint32_t i = 0; i < 65'535; ++i) now.add(Qpn(1));
  const auto before = now;
  now.add(Qpn(2));
  now.add(Qpn(3));
  EXPECT_THAT(now.since(before), ElementsAre(Qpn(2), Qpn(3)));
}

TEST(QpErrors, SurviveTheFabricFile) {
  QpErrors errors;
  for (const auto qpn : {0xfffffeU, 0x010203U, 0x0U, 0x800001U, 0x123456U}) errors.add(Qpn(qpn));
  EXPECT_EQ(QpErrors::of_words(errors.words()), errors);
  EXPECT_EQ(QpErrors().words(), QpErrors::Words());
  const auto any = QpErrors::of_words({~std::uint64_t{0}, ~std::uint64_t{0}});
  EXPECT_THAT(any.since({}), testing::Each(Qpn(0xffffff)));
}

}  // namespace
}  // namespace softib
