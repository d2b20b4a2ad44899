// A TUN or TAP device: the host's side of an IPoIB interface.
//
// When the process dies after keep(), the kernel keeps the interface with its addresses and routes,
// without carrier; the next open() adopts it. remove() makes it disappear on an orderly shutdown.
// Only one process can have the device open. An interface of others is neither used nor removed.
//
// Packets have a virtio header (virtio_header.hpp): the kernel passes large TCP and UDP packets of
// up to 64 KiB with partial checksums (UDP from Linux 6.2 on), and accepts such packets.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/interface_mtu.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "linux/network_namespace.hpp"
#include "linux/packet_reader.hpp"
#include "linux/pollable_tun.hpp"
#include "linux/vlan_trunk.hpp"

namespace ipoib::linux {

struct TunOptions {
  std::string name = "ib0";
  /// Alternative name by which the next open() recognises the interface; empty if it is not to.
  std::string mark = {};
  std::uint32_t queue_length = 1000;   ///< packets that the kernel queues (txqueuelen)
  bool large_packets = true;           ///< accept large packets from the kernel (GSO)
  std::optional<MacAddress> mac = {};  ///< of a new TAP; nullopt: a TUN
  /// The kernel derives the interface's IPv6 addresses from this secret; without one, it generates
  /// none (see NetlinkView::open).
  std::optional<Ipv6Address> stable_secret = {};
  VlanTrunk* trunk = nullptr;  ///< of a TAP, for its VLANs, if there are any; outlives the device
};

class TunDevice final : public PollableTun {
 public:
  /// Creates the interface, or adopts a persistent one with that mark that no process has open. A
  /// new one is up, and the kernel runs Neighbour Discovery on it (no NOARP): it answers
  /// solicitations and detects duplicate addresses; it disappears with this object unless keep() is
  /// called. An adopted one keeps its configuration. There is no carrier yet. Fails with EEXIST if
  /// another interface has the name.
  [[nodiscard]] static Result<std::unique_ptr<TunDevice>> open(const TunOptions& options);
  /// Takes over the device of another process, which has sent its descriptor: one of open(), in the
  /// network namespace of the calling thread. Both have it open from then on. Changes neither
  /// carrier nor MTU; `mtu` is the one that the other process has set, or 0.
  [[nodiscard]] static Result<std::unique_ptr<TunDevice>> take(FileDescriptor device,
                                                               std::uint32_t mtu,
                                                               const TunOptions& options);
  /// The network namespace of a TUN's or TAP's interface. nullopt if it was deleted, or is neither.
  [[nodiscard]] static std::optional<NetworkNamespace> namespace_of(int device);
  /// The name of a TUN's or TAP's interface; empty if it was deleted, or is neither.
  [[nodiscard]] static std::string name_of(int device);
  /// Removes the persistent interface with this mark, if there is one. Fails with EBUSY if a
  /// process has it open.
  [[nodiscard]] static Result<void> discard(const std::string& mark);
  ~TunDevice() override { detach_from_trunk(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override {
    return reader_.read(fd_.get(), pools, headroom, out, limit);
  }
  bool write(ConstBytes packet) override;
  [[nodiscard]] bool accepts(Segmentation::Kind kind) const override {
    return accepted_.contains(kind);
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override;
  /// If the operator has set a smaller MTU meanwhile, keeps that from then on.
  [[nodiscard]] Result<void> set_mtu(std::uint32_t bytes) override;
  /// Both succeed without effect if the interface was deleted.
  [[nodiscard]] Result<void> set_carrier(bool on) override;
  void set_speed(std::uint32_t mbps) override;
  [[nodiscard]] HostDrops drops() const override {
    return {.malformed = reader_.malformed(),
            .vlan_queue = trunk_ != nullptr ? trunk_->dropped() : 0};
  }
  [[nodiscard]] bool is_up() const override;
  [[nodiscard]] bool is_gone() const override { return gone_ || reader_.is_gone(); }

  /// Readable when the host has packets.
  [[nodiscard]] int descriptor() const { return fd_.get(); }
  [[nodiscard]] int interface_index() const { return index_; }
  /// Whether the network interface existed before.
  [[nodiscard]] bool adopted() const { return adopted_; }
  /// The operator may have renamed it.
  [[nodiscard]] std::string current_name() const;
  /// What could not be set, and the interface works without.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Makes the interface stay, or disappear, with this object.
  void keep();
  void remove();
  /// Makes the interface disappear at once. Nothing may be read, written or set afterwards.
  void close();

 private:
  TunDevice(FileDescriptor fd, FileDescriptor control, std::string name)
      : fd_(std::move(fd)), control_(std::move(control)), name_(std::move(name)) {}
  [[nodiscard]] Result<void> configure(const TunOptions& options);
  [[nodiscard]] Result<void> configure_link_layer(const TunOptions& options);
  [[nodiscard]] bool set_link_type();
  [[nodiscard]] Result<void> unless_gone(Error error);
  [[nodiscard]] Result<void> change_flags(short set, short clear);
  [[nodiscard]] Result<void> negotiate_offloads(bool large_packets);
  void detach_from_trunk();
  [[nodiscard]] bool write_all(std::span<const iovec> pieces);

  FileDescriptor fd_;
  FileDescriptor control_;  ///< a socket in the interface's namespace, for its ioctls
  std::string name_;
  int index_ = 0;
  std::size_t link_header_ = 0;  ///< bytes before each packet: of Ethernet on a TAP
  InterfaceMtu mtu_;
  bool adopted_ = false;
  bool shared_ = false;  ///< another process serves it, see take()
  std::vector<std::string> warnings_;
  bool gone_ = false;
  LargePackets accepted_;
  PacketReader reader_;
  VlanTrunk* trunk_ = nullptr;
};

}  // namespace ipoib::linux
