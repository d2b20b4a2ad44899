// A persistent TUN or TAP device: the host's side of an IPoIB interface.
//
// When the process dies, the kernel keeps a persistent TUN with its addresses and routes, without
// carrier; the next open() adopts it. remove() makes it disappear on an orderly shutdown. Only one
// process can have the device open.
//
// Packets have a virtio header (virtio_header.hpp): the kernel passes large TCP and UDP packets of
// up to 64 KiB with partial checksums (UDP: from Linux 6.2), and accepts such. A read offers a
// frame of the link's size, followed by the rest of a large frame, so that small packets are not
// copied.
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
#include "linux/pollable_tun.hpp"

namespace ipoib::host {

struct TunOptions {
  std::string name = "ib0";
  std::string mark = {};  ///< alternative name that finds it after it was renamed; empty: none
  std::uint32_t queue_length = 1000;  ///< packets that the kernel queues (txqueuelen)
  bool large_packets = true;          ///< accept large packets from the kernel (GSO)
  std::optional<MacAddress> mac = {};  ///< of a new TAP; nullopt: a TUN
  /// The kernel derives the interface's IPv6 addresses from it; without, it generates none (see
  /// NetlinkView::open).
  std::optional<Ipv6Address> stable_secret = {};
};

class TunDevice final : public PollableTun {
 public:
  /// Creates the interface, or adopts a persistent one of that name that no process has open. A new
  /// one is up, and the kernel runs Neighbour Discovery on it (no NOARP): it answers solicitations
  /// and detects duplicate addresses. An adopted one keeps its configuration. No carrier yet.
  [[nodiscard]] static Result<std::unique_ptr<TunDevice>> open(const TunOptions& options);
  /// Takes over the device of another process, which has sent its descriptor: an interface of open(),
  /// a TUN or TAP as before, in the network namespace of the calling thread. Both have it open from
  /// then on. Changes neither carrier nor MTU; `mtu` is what the other process has set, 0: nothing.
  [[nodiscard]] static Result<std::unique_ptr<TunDevice>> take(FileDescriptor device,
                                                               std::uint32_t mtu,
                                                               const TunOptions& options);
  /// The network namespace of a TUN's or TAP's interface. nullopt if it was deleted, or is neither.
  [[nodiscard]] static std::optional<NetworkNamespace> namespace_of(int device);
  /// Removes a persistent interface of open() that no process has open, if it exists: the one with
  /// this mark, else that of this name. EBUSY if a process has it open.
  [[nodiscard]] static Result<void> discard(const std::string& name, const std::string& mark = {});
  /// The network namespace that the interface is in now. nullopt if it was deleted.
  [[nodiscard]] std::optional<NetworkNamespace> network_namespace() const {
    return namespace_of(fd_.get());
  }
  /// The operator may have renamed it.
  [[nodiscard]] std::string current_name() const;
  ~TunDevice() override = default;

  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override;
  bool write(ConstBytes packet) override;
  [[nodiscard]] bool accepts(Segmentation::Kind kind) const override {
    return kind == Segmentation::Kind::tcp ? takes_tcp_ : takes_udp_;
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override;
  /// If the operator has set a smaller MTU meanwhile, keeps that from then on.
  [[nodiscard]] Result<void> set_mtu(std::uint32_t bytes) override;
  /// Both succeed without effect if the interface was deleted.
  [[nodiscard]] Result<void> set_carrier(bool on) override;

  [[nodiscard]] int descriptor() const { return fd_.get(); }
  [[nodiscard]] int interface_index() const { return index_; }
  [[nodiscard]] bool adopted() const { return adopted_; }
  /// What open() could not set, and the interface works without.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] std::uint64_t malformed() const override { return malformed_; }
  [[nodiscard]] bool is_up() const override;
  [[nodiscard]] bool is_gone() const override { return gone_; }
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
  [[nodiscard]] Result<void> unless_gone(Error error);
  [[nodiscard]] Result<void> change_flags(short set, short clear);
  [[nodiscard]] Result<void> negotiate_offloads(bool large_packets);
  enum class ReadResult : std::uint8_t { packet, large_packet, malformed, no_frame, nothing };
  [[nodiscard]] ReadResult read_one(const HostPools& pools, std::size_t headroom,
                                    std::vector<Frame>& out);
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
  bool takes_tcp_ = false;
  bool takes_udp_ = false;
  std::uint64_t malformed_ = 0;
};

}  // namespace ipoib::host
