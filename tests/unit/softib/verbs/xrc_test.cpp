// XRC as programs see it: domains, shared receive queues and queue pairs.
#include <fcntl.h>
#include <unistd.h>

#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

constexpr std::uint32_t kDomainMask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

class XrcVerbsTest : public VerbsTest {
 protected:
  [[nodiscard]] ibv_xrcd* open_domain(int fd = -1, int flags = O_CREAT,
                                      std::uint32_t mask = kDomainMask) const {
    ibv_xrcd_init_attr attr{mask, fd, flags};
    errno = 0;
    return ibv_open_xrcd(far_.context, &attr);
  }
  [[nodiscard]] ibv_srq_init_attr_ex queue_attributes(ibv_xrcd* domain) const {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {4, 1, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = far_.pd;
    attr.xrcd = domain;
    attr.cq = far_.cq;
    return attr;
  }
  [[nodiscard]] ibv_qp* make_target(ibv_xrcd* domain) const {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = domain;
    return ibv_create_qp_ex(far_.context, &init);
  }
};

TEST_F(XrcVerbsTest, DomainsOfOneFileAreOne) {
  const auto make_file = [] {
    std::string path = ::testing::TempDir() + "softib-xrc-XXXXXX";
    const int made = ::mkstemp(path.data());
    ::unlink(path.c_str());
    return made;
  };
  const int file = make_file();
  ASSERT_GE(file, 0);
  EXPECT_EQ(open_domain(file, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  auto* const one = open_domain(file);
  auto* const two = open_domain(file, 0);
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(open_domain(file, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const int other = make_file();
  ASSERT_GE(other, 0);
  EXPECT_EQ(open_domain(other, 0), nullptr) << "another file";
  ::close(other);
  auto attr = queue_attributes(one);
  auto* const srq = ibv_create_srq_ex(far_.context, &attr);
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(ibv_close_xrcd(one), 0);
  EXPECT_EQ(ibv_close_xrcd(two), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(two), 0);
  ::close(file);
  EXPECT_EQ(open_domain(file), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(XrcVerbsTest, ArgumentsAreChecked) {
  EXPECT_EQ(open_domain(-1, O_CREAT, IBV_XRCD_INIT_ATTR_FD), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(open_domain(-1, O_CREAT, 0xff), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  auto* const domain = open_domain();
  ASSERT_NE(domain, nullptr);
  auto attr = queue_attributes(domain);
  attr.comp_mask &= ~std::uint32_t{IBV_SRQ_INIT_ATTR_CQ};
  EXPECT_EQ(ibv_create_srq_ex(far_.context, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = queue_attributes(domain);
  attr.srq_type = IBV_SRQT_TM;
  EXPECT_EQ(ibv_create_srq_ex(far_.context, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_srq_init_attr basic_attr{nullptr, {4, 1, 0}};
  auto* const basic = ibv_create_srq(far_.pd, &basic_attr);
  ASSERT_NE(basic, nullptr);
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(basic, &number), EOPNOTSUPP);
  auto init = far_.initial();
  init.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_create_qp(far_.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL) << "it has no domain";
}

TEST_F(XrcVerbsTest, ObjectsThatAProgramLeavesAreDestroyed) {
  auto* const domain = open_domain();
  auto attr = queue_attributes(domain);
  auto* const srq = ibv_create_srq_ex(far_.context, &attr);
  ASSERT_NE(srq, nullptr);
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  EXPECT_NE(number, 0U);
  auto* const target = make_target(domain);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->context, far_.context);
  EXPECT_EQ(target->qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(far_.cq), EBUSY) << "the queue completes to it";
  EXPECT_EQ(ibv_close_device(far_.context), 0);
  far_.context = nullptr;
}

}  // namespace
}  // namespace softib::verbs
