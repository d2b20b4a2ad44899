#include "softib/core/network_order.hpp"
#include "tests/unit/softib/hca/hca_fixture.hpp"

namespace softib::hca {
namespace {

class HcaReceiveTest : public HcaTest {
 protected:
  /// Sends `text` from `from` to `to` and delivers it.
  void send_text(const std::string& text, std::uint32_t qkey = kQKey,
                 std::optional<Gid> dgid = std::nullopt) {
    std::memcpy(a.memory.data(), text.data(), text.size());
    auto sge = a.element(0, text.size());
    auto& handle = a.handle(6, dgid);
    handle.attributes.src_path_bits = source_path_bits;
    auto wr = a.send_request(handle, to.number(), sge);
    wr.wr.ud.remote_qkey = qkey;
    wr.send_flags = flags;
    if (immediate) {
      wr.opcode = IBV_WR_SEND_WITH_IMM;
      wr.imm_data = *immediate;
    }
    ASSERT_EQ(a.send(from, wr, sink), 0);
    deliver();
  }
  [[nodiscard]] std::string text_at(std::size_t offset, std::size_t size) const {
    return {b.memory.begin() + static_cast<std::ptrdiff_t>(offset),
            b.memory.begin() + static_cast<std::ptrdiff_t>(offset + size)};
  }
  [[nodiscard]] const HcaCounters& counters() const { return b.hca.counters(); }

  QueuePair& from = a.make_qp();
  QueuePair& to = b.make_qp();
  unsigned flags = IBV_SEND_SIGNALED;
  std::optional<std::uint32_t> immediate;
  std::uint8_t source_path_bits = 0;
};

TEST_F(HcaReceiveTest, CompletionHasAllFields) {
  ASSERT_EQ(b.receive_into(to, 0, 2088, 77), 0);
  immediate = to_network(std::uint32_t{0xcafe});
  send_text("hello");
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].wr_id, 77U);
  EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(wc[0].byte_len, kGrh + 5);
  EXPECT_EQ(wc[0].qp_num, to.number().value());
  EXPECT_EQ(wc[0].src_qp, from.number().value());
  EXPECT_EQ(wc[0].slid, 5);
  EXPECT_EQ(wc[0].sl, 3);
  EXPECT_EQ(wc[0].pkey_index, 0);
  EXPECT_EQ(wc[0].dlid_path_bits, 0);
  EXPECT_EQ(wc[0].wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc[0].imm_data, *immediate);
  EXPECT_EQ(wc[0].vendor_err, 0U);
  EXPECT_EQ(text_at(kGrh, 5), "hello");
}

TEST_F(HcaReceiveTest, PathBitsSelectTheLid) {
  auto many = make_port(4);
  many.lmc = 2;
  b.hca.set_port(many);
  auto few = make_port(2);
  few.lmc = 1;
  a.hca.set_port(few);
  ASSERT_EQ(b.receive_into(to, 0, 2088), 0);
  source_path_bits = 7;
  send_text("hello");
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 1U);
  EXPECT_EQ(wc[0].slid, 3) << "an LMC of 1 allows one path bit";
  EXPECT_EQ(wc[0].dlid_path_bits, 2);
  many.lid = Lid(8);
  b.hca.set_port(many);
  send_text("hello");
  EXPECT_EQ(counters().at(1).drop_lid, 1U);
}

TEST_F(HcaReceiveTest, WithoutGrhItsAreaIsUnchanged) {
  std::fill_n(b.memory.begin(), kGrh, 0xee);
  ASSERT_EQ(b.receive_into(to, 0, 2088), 0);
  send_text("x");
  EXPECT_EQ(text_at(0, kGrh), std::string(kGrh, '\xee'));
}

TEST_F(HcaReceiveTest, GrhIsCopiedToTheBuffer) {
  ASSERT_EQ(b.receive_into(to, 0, 2088), 0);
  send_text("grh", kQKey, b.hca.ports()[1].gid());
  EXPECT_EQ(b.poll().at(0).wc_flags, unsigned{IBV_WC_GRH});
  const auto grh = ipoib::wire::Grh::parse(ConstBytes(b.memory).first(kGrh));
  ASSERT_TRUE(grh);
  EXPECT_EQ(grh->sgid, a.hca.ports()[1].gid());
  EXPECT_EQ(grh->dgid, b.hca.ports()[1].gid());
  EXPECT_EQ(text_at(kGrh, 3), "grh");
}

TEST_F(HcaReceiveTest, ScattersAcrossElements) {
  std::array sges = {b.element(1000, 10), b.element(2000, 0), b.element(3000, 33),
                     b.element(4000, 100)};
  ibv_recv_wr wr{};
  wr.sg_list = sges.data();
  wr.num_sge = 4;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(b.hca.post_receive(to, &wr, &bad), 0);
  send_text("elements", kQKey, b.hca.ports()[1].gid());
  EXPECT_EQ(b.poll().at(0).status, IBV_WC_SUCCESS);
  // 10 bytes of the GRH; the other 30 and "ele"; the rest.
  EXPECT_EQ(b.memory[1000] >> 4, 6);
  EXPECT_EQ(text_at(3030, 3), "ele");
  EXPECT_EQ(text_at(4000, 5), "ments");
}

TEST_F(HcaReceiveTest, ReceivesEmptyMessage) {
  ASSERT_EQ(b.receive_into(to, 0, kGrh), 0);
  send_text("");
  EXPECT_EQ(b.poll().at(0).byte_len, kGrh);
}

TEST_F(HcaReceiveTest, ReceivesAreFilledInOrder) {
  ASSERT_EQ(b.receive_into(to, 0, 100, 1), 0);
  ASSERT_EQ(b.receive_into(to, 100, 100, 2), 0);
  send_text("first");
  send_text("second");
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 2U);
  EXPECT_EQ(wc[0].wr_id, 1U);
  EXPECT_EQ(wc[1].wr_id, 2U);
  EXPECT_EQ(text_at(140, 6), "second");
}

TEST_F(HcaReceiveTest, DropsPacketWithoutPostedReceive) {
  send_text("lost");
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(counters().at(1).drop_no_receive, 1U);
  EXPECT_EQ(to.state(), IBV_QPS_RTS);
}

TEST_F(HcaReceiveTest, DropsPacketWithWrongQKey) {
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  send_text("x", kQKey + 1);
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(counters().at(1).drop_qkey, 1U);
}

TEST_F(HcaReceiveTest, PKeysMustMatchAndOneBeFull) {
  struct Case {
    std::uint16_t from_index;
    std::uint16_t to_index;
    bool admitted;
  };
  // Index 0: 0xffff, 1: 0x8012, 2: 0x0012, 3: none.
  for (const auto& each : {Case{1, 1, true}, Case{1, 2, true}, Case{2, 1, true}, Case{2, 2, false},
                           Case{0, 1, false}, Case{1, 3, false}}) {
    auto& source = a.make_qp(IBV_QPS_RTS, a.config(), each.from_index);
    auto& target = b.make_qp(IBV_QPS_RTS, b.config(), each.to_index);
    ASSERT_EQ(b.receive_into(target, 0, 100), 0);
    const auto before = counters().at(1).drop_pkey;
    auto sge = a.element(0, 4);
    auto wr = a.send_request(a.handle(6), target.number(), sge);
    ASSERT_EQ(a.send(source, wr, sink), 0);
    deliver();
    const auto wc = b.poll();
    EXPECT_EQ(wc.size(), each.admitted ? 1U : 0U) << each.from_index << " to " << each.to_index;
    EXPECT_EQ(counters().at(1).drop_pkey - before, each.admitted ? 0U : 1U);
    if (each.admitted) {
      EXPECT_EQ(wc.at(0).pkey_index, each.to_index);
    }
  }
}

TEST_F(HcaReceiveTest, DropsPacketForAnEarlierEpoch) {
  Host later(6, 2);
  auto& qp = later.make_qp();
  EXPECT_EQ(QpnLayout::index(qp.number()), QpnLayout::index(to.number()));
  ASSERT_EQ(later.receive_into(qp, 0, 100), 0);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(6), to.number(), sge);
  ASSERT_EQ(a.send(from, wr, sink), 0);
  later.hca.receive({sink.packets.at(0)});
  EXPECT_EQ(later.hca.counters().at(1).drop_unknown_qp, 1U);
  EXPECT_TRUE(later.poll().empty());
}

TEST_F(HcaReceiveTest, PacketsForOthersAreDropped) {
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(9), to.number(), sge);
  ASSERT_EQ(a.send(from, wr, sink), 0);
  deliver();
  EXPECT_EQ(counters().at(1).drop_lid, 1U);
  send_text("x", kQKey, Gid(Gid::kLinkLocalPrefix, Guid(0x42)));
  EXPECT_EQ(counters().at(1).drop_gid, 1U);
  EXPECT_TRUE(b.poll().empty());
}

TEST_F(HcaReceiveTest, PortMayRequireAGrh) {
  auto port = b.hca.ports()[1];
  port.grh_required = true;
  b.hca.set_port(port);
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  send_text("x");
  EXPECT_TRUE(b.poll().empty());
  EXPECT_EQ(counters().at(1).drop_gid, 1U);
  send_text("x", kQKey, b.hca.ports()[1].gid());
  EXPECT_EQ(b.poll().size(), 1U);
}

TEST_F(HcaReceiveTest, InactivePortReceivesNothing) {
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  auto port = b.hca.ports()[1];
  port.state = PortState::init;
  b.hca.set_port(port);
  send_text("x");
  EXPECT_EQ(counters().at(1).drop_port, 1U);
  EXPECT_TRUE(b.poll().empty());
}

TEST_F(HcaReceiveTest, DropsPacketLongerThanThePortMtu) {
  ASSERT_EQ(b.receive_into(to, 0, 2088), 0);
  auto port = b.hca.ports()[1];
  port.mtu = 1;
  b.hca.set_port(port);
  send_text(std::string(257, 'x'));
  EXPECT_EQ(counters().at(1).drop_length, 1U);
  EXPECT_TRUE(b.poll().empty());
}

TEST_F(HcaReceiveTest, TooSmallBufferIsALocalLengthErrorAndMovesTheQueuePairToErr) {
  ASSERT_EQ(b.receive_into(to, 0, kGrh + 3, 1), 0);
  ASSERT_EQ(b.receive_into(to, 0, 100, 2), 0);
  send_text("four");
  const auto wc = b.poll();
  ASSERT_EQ(wc.size(), 2U);
  EXPECT_EQ(wc[0].wr_id, 1U);
  EXPECT_EQ(wc[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc[1].wr_id, 2U);
  EXPECT_EQ(wc[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(to.state(), IBV_QPS_ERR);
  EXPECT_EQ(counters().receive_errors, 1U);
}

TEST_F(HcaReceiveTest, ReadOnlyMemoryIsALocalProtectionError) {
  const auto read_only = b.hca.register_memory(*b.pd, b.memory.data(), 4096,
                                               std::bit_cast<std::uint64_t>(b.memory.data()), 0);
  ASSERT_TRUE(read_only);
  const auto address = std::bit_cast<std::uint64_t>(b.memory.data());
  const std::vector<std::vector<ibv_sge>> receives{
      {{address, 100, read_only->key}},                         // all of it
      {{address, kGrh, read_only->key}, b.element(1000, 60)}};  // the place of the GRH
  for (auto elements : receives) {
    ibv_recv_wr wr{};
    wr.sg_list = elements.data();
    wr.num_sge = static_cast<int>(elements.size());
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(b.hca.post_receive(to, &wr, &bad), 0);
    send_text("x", kQKey, b.hca.ports()[1].gid());
    EXPECT_EQ(b.poll().at(0).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(to.state(), IBV_QPS_ERR);
    b.modify(to, IBV_QPS_RESET);
    b.bring(to, IBV_QPS_RTS);
  }
}

TEST_F(HcaReceiveTest, MemoryDeregisteredAfterPostingIsNotWritten) {
  ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  ASSERT_TRUE(b.hca.memory().remove(b.region.key));
  send_text("x");
  EXPECT_EQ(b.poll().at(0).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.memory[kGrh], 0);
}

TEST_F(HcaReceiveTest, QueueIsFullUntilACompletionIsPolled) {
  for (std::uint32_t i = 0; i <= kQueue; ++i) ASSERT_EQ(b.receive_into(to, 0, 100), 0);
  EXPECT_EQ(b.receive_into(to, 0, 100), ENOMEM);
  send_text("x");
  EXPECT_EQ(b.receive_into(to, 0, 100), ENOMEM);
  ASSERT_EQ(b.poll().size(), 1U);
  EXPECT_EQ(b.receive_into(to, 0, 100), 0);
}

TEST_F(HcaReceiveTest, ReturnsTheFirstBadRequestOfAChain) {
  auto sge = b.element(0, 100);
  std::array<ibv_recv_wr, 3> chain{};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].sg_list = &sge;
    chain[i].num_sge = i == 1 ? 6 : 1;
    if (i + 1 < chain.size()) chain[i].next = &chain[i + 1];
  }
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(b.hca.post_receive(to, chain.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &chain[1]);
  send_text("x");
  EXPECT_EQ(b.poll().size(), 1U);
  b.modify(to, IBV_QPS_ERR);
  EXPECT_EQ(b.hca.post_receive(to, chain.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &chain[1]);
  EXPECT_EQ(b.poll().size(), 1U) << "the accepted request is flushed";
}

TEST_F(HcaReceiveTest, LoopbackWithinOneHca) {
  auto& other = a.make_qp();
  ASSERT_EQ(a.receive_into(other, 1024, 100), 0);
  auto sge = a.element(0, 4);
  auto wr = a.send_request(a.handle(5), other.number(), sge);
  ASSERT_EQ(a.send(from, wr, sink), 0);
  deliver();
  const auto wc = a.poll();
  ASSERT_EQ(wc.size(), 2U);
  EXPECT_EQ(wc[1].opcode, IBV_WC_RECV);
  EXPECT_EQ(wc[1].slid, 5);
}

TEST_F(HcaReceiveTest, InvalidPacketIsMalformed) {
  b.hca.receive(ArrivedPacket{});
  const std::vector<std::uint8_t> noise(64, 0xa5);
  b.hca.receive({noise});
  EXPECT_EQ(counters().at(1).drop_malformed, 2U);
}

}  // namespace
}  // namespace softib::hca
