// UdPort over softib's HCA model, without the verbs ABI.
#pragma once

#include <deque>
#include <vector>

#include "ipoib/ud_port.hpp"
#include "softib/hca/hca.hpp"

namespace ipoib::sim {

class HcaPort : public UdPort {
 public:
  /// Requests in each of its queues.
  static constexpr std::uint32_t kDepth = 256;

  /// Registers its own frames and those of `pools`. The HCA and the pools outlive it.
  HcaPort(softib::hca::Hca& hca, softib::PacketSink& fabric, const std::vector<FramePool*>& pools,
          std::uint32_t depth = kDepth);
  HcaPort(const HcaPort&) = delete;
  HcaPort& operator=(const HcaPort&) = delete;
  ~HcaPort() override;

  /// Whether there is something to receive, or a send has been completed.
  [[nodiscard]] bool has_work() const { return !cq_->idle(); }

  [[nodiscard]] Qpn qpn() const override;
  [[nodiscard]] Result<void> configure(const UdAttributes& wanted) override;
  [[nodiscard]] Result<AddressHandlePtr> create_address_handle(const AddressVector& to) override;
  std::size_t send(std::span<Outgoing> batch) override;
  std::size_t receive(std::vector<Incoming>& out, std::size_t limit) override;
  [[nodiscard]] Result<void> attach(const Gid& mgid, Lid mlid) override;
  [[nodiscard]] Result<void> detach(const Gid& mgid, Lid mlid) override;

 private:
  void to_state(ibv_qp_state state, ibv_qp_attr attributes, int mask);
  void post_receives();
  [[nodiscard]] std::uint32_t key_of(const std::uint8_t* address) const;
  void complete_receive(const ibv_wc& completion, std::vector<Incoming>& out);

  struct Region {
    const std::uint8_t* begin;
    const std::uint8_t* end;
    std::uint32_t key;
  };

  softib::hca::Hca& hca_;
  softib::PacketSink& fabric_;
  const std::uint32_t depth_;
  FramePool receive_frames_;
  std::vector<Region> regions_;
  softib::hca::ProtectionDomain* pd_;
  softib::hca::CompletionQueue* cq_;
  softib::hca::QueuePair* qp_;
  std::deque<Outgoing> sending_;  ///< posted sends, in order
  std::deque<Frame> posted_;      ///< posted receives, in order
};

}  // namespace ipoib::sim
